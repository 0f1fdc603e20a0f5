"""A way to a real server that remembers what was sent along it, in both directions."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socket import SHUT_WR, create_connection, socket

_PIECE_BYTES = 64 * 1024


@dataclass
class Relay:
    """Answers at `port` with what the server behind it answers."""

    port: int
    asked: bytearray = field(default_factory=bytearray, repr=False)
    """What clients sent, of all connections."""
    answered: bytearray = field(default_factory=bytearray, repr=False)

    @property
    def url(self) -> str:
        """Where clients reach the server through it."""
        return f"http://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Begin anew."""
        self.asked.clear()
        self.answered.clear()


@contextmanager
def run_relay(server_port: int) -> Iterator[Relay]:
    """A relay to a port of this machine until the end of the block."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            client: socket = self.request
            with create_connection(("127.0.0.1", server_port)) as server:
                upwards = threading.Thread(target=_pass, args=(client, server, relay.asked))
                upwards.start()
                _pass(server, client, relay.answered)
                upwards.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        relay = Relay(listener.server_address[1])
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield relay
        finally:
            listener.shutdown()
            thread.join()


def _pass(source: socket, target: socket, seen: bytearray) -> None:
    # Either side may leave whenever it likes.
    with suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            seen.extend(piece)
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(SHUT_WR)
