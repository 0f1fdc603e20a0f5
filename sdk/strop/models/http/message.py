"""What goes over the wire: addresses, requests, responses and the limits of an exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from strop.errors import ConfigError

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute ``http`` or ``https`` address, taken apart."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query, as the request line has them."""

    @property
    def origin(self) -> str:
        """Scheme, host and port: whose connections may be shared."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Value of the ``Host`` header; the scheme's own port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return self.origin + self.target

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> Url:
        """Take an address apart.

        Raises:
            ConfigError: `text` is no ``http`` or ``https`` address, or has a user and password.
        """
        try:
            parts = urlsplit(text)
            port = parts.port
            host = _ascii_host(parts.hostname or "")
        except ValueError as error:
            raise ConfigError(f"{text!r} is no address: {error}") from error
        if parts.scheme not in _PORTS or not host or " " in host or port == 0:
            raise ConfigError(f"{text!r} is no address: write it as http://host:port/path")
        if parts.username is not None:
            raise ConfigError(f"the address of {parts.hostname} holds a password: use `api_key`")
        target = parts.path or "/"
        if parts.query:
            target += f"?{parts.query}"
        return Url(parts.scheme, host, port or _PORTS[parts.scheme], target)


def _ascii_host(name: str) -> str:
    return name if name.isascii() else name.encode("idna").decode()


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how much and how many; times in seconds, None means without limit."""

    connect_s: float | None = 15.0
    """To open a connection, with TLS and proxy."""
    read_s: float | None = 600.0
    """Between two arrivals of bytes; an engine may think this long before the first."""
    total_s: float | None = 1800.0
    """For one exchange. Waiting for a free connection does not count."""
    idle_s: float = 60.0
    """How long an unused connection is kept."""
    connection_count: int = 8192
    """Open connections to one host; callers beyond it wait, first come first served."""
    body_bytes: int = 64 * 1024 * 1024
    """Of a response's body, unpacked."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, whole."""

    method: str
    url: Url
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """A response that arrived whole, its content coding undone."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    """Names in lower case; of doubled ones the last."""
    body: bytes = b""
    elapsed_s: float = 0.0
    """From the request's first byte to the response's last."""
