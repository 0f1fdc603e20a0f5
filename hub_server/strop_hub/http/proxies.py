"""A plain ASGI middleware: whose address a request has, as far as trusted proxies say so."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from strop.errors import ConfigError

_Network = IPv4Network | IPv6Network


class ProxyMiddleware:
    """Takes the client's address from ``X-Forwarded-For`` when the peer is a trusted proxy.

    Nothing else is believed: absolute addresses come from the hub's settings alone.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self.app = app
        self._trusted = [_network(text) for text in trusted]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and self._trusted and scope.get("client"):
            forwarded = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
            address = self._client(scope["client"][0], forwarded)
            scope = {**scope, "client": (address, 0)}
        await self.app(scope, receive, send)

    def _client(self, peer: str, forwarded: str) -> str:
        """The last address that no trusted proxy has; whatever stands before it is hearsay."""
        address = peer
        for hop in reversed([part.strip() for part in forwarded.split(",") if part.strip()]):
            if not self._is_trusted(address) or not _is_address(hop):
                break
            address = hop
        return address

    def _is_trusted(self, address: str) -> bool:
        if not _is_address(address):
            return False
        parsed = ip_address(address)
        return any(parsed in network for network in self._trusted)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _network(text: str) -> _Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"`trusted_proxies` has {text!r}, which is no address: {error}") from None
