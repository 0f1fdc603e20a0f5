"""Which proxy leads to an address, as the environment's variables say."""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment

from strop.errors import ConfigError
from strop.models.http.message import Url


@dataclass(frozen=True, slots=True)
class Proxy:
    """One HTTP proxy."""

    url: Url
    authorization: str | None = None
    """Value of ``proxy-authorization``."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``[http://][user:password@]host[:port]``.

        Raises:
            ConfigError: Another scheme, or no address.
        """
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"the proxy {parts.scheme}://{parts.hostname or ''} cannot be used:"
                " set HTTP_PROXY and HTTPS_PROXY to http://host:port"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        url = Url.parse(f"{parts.scheme}://{host}:{parts.port or 80}")
        if parts.username is None:
            return cls(url)
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        return cls(url, "Basic " + base64.b64encode(secret).decode())


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies of one pool. Addresses of this machine itself never go through one."""

    http: Proxy | None = None
    https: Proxy | None = None
    exceptions: tuple[str, ...] = ()
    """Hosts, domain suffixes, ``host:port``, addresses and networks (``10.0.0.0/8``), or ``*``."""
    _known: dict[str, Proxy | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_environment(cls) -> Self:
        """Read ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``."""
        found = getproxies_environment()
        fallback = found.get("all")
        http, https = found.get("http", fallback), found.get("https", fallback)
        exceptions = (entry.strip().lower() for entry in found.get("no", "").split(","))
        return cls(
            Proxy.parse(http) if http else None,
            Proxy.parse(https) if https else None,
            tuple(entry for entry in exceptions if entry),
        )

    def of(self, url: Url) -> Proxy | None:
        """The proxy for `url`; None for a direct connection."""
        proxy = self.https if url.scheme == "https" else self.http
        if proxy is None:
            return None
        if url.origin not in self._known:
            self._known[url.origin] = None if self._is_direct(url) else proxy
        return self._known[url.origin]

    def _is_direct(self, url: Url) -> bool:
        host = url.host.lower()
        if host == "localhost" or host.endswith(".localhost"):
            return True
        address = _address(host)
        if address is not None and address.is_loopback:
            return True
        return any(_matches(entry, host, url.port, address) for entry in self.exceptions)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _matches(entry: str, host: str, port: int, address: _Address | None) -> bool:
    if entry == "*":
        return True
    if address is not None:
        try:
            return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
        except ValueError:
            return entry in (f"{host}:{port}", f"[{host}]:{port}")
    name, _, wanted_port = entry.lstrip("*").lstrip(".").partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    return host == name or host.endswith(f".{name}")
