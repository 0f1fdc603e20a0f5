"""What a served exchange consists of: a request that arrived whole, and its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Peer:
    """Both ends of a connection; each connection has its own, equal to no other."""

    host: str
    port: int
    """Of whoever called."""
    own_port: int


@dataclass(frozen=True, slots=True)
class Request:
    """One request, whole."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    peer: Peer

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """The query's fields; of doubled ones the last."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def document(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            ValueError: It is none.
        """
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise ValueError("the body is no JSON object")
        return value


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = field(default=())


def json_answer(value: Any, status: int = 200) -> Answer:
    """A JSON document with ASCII escapes, which keep lone surrogates."""
    return Answer(status, _encode(value).encode("ascii"))
