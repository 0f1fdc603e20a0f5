"""Requests as bytes, for what no well-behaved client would send."""

import socket
from dataclasses import dataclass
from typing import Self

import httpx

from tests.hub_server.running_hub import RunningHub

TIMEOUT_S = 60


@dataclass
class Connection:
    """One connection to a hub."""

    socket: socket.socket

    @classmethod
    def to(cls, hub: RunningHub) -> Self:
        """Connect."""
        url = httpx.URL(hub.url)
        assert url.port is not None
        opened = socket.create_connection((url.host, url.port), timeout=TIMEOUT_S)
        return cls(opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, content: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(content)

    def read_all(self) -> bytes:
        """Everything until the hub closes."""
        answer = b""
        while chunk := self.socket.recv(65536):
            answer += chunk
        return answer


def exchange(hub: RunningHub, content: bytes) -> bytes:
    """What comes back for some bytes, until the hub closes the connection."""
    with Connection.to(hub) as connection:
        connection.send(content)
        return connection.read_all()


def statuses(answer: bytes) -> list[int]:
    """The statuses of the responses in an answer, in order."""
    heads = answer.split(b"HTTP/1.1 ")[1:]
    return [int(head[:3]) for head in heads]
