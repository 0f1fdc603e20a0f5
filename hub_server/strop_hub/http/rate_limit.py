"""A plain ASGI middleware: whoever asks too often is asked to wait.

Each process counts for itself, so that no request costs a write; with several processes a caller
may get as many times the limit.
"""

import time
from collections import OrderedDict
from math import ceil

from starlette.types import ASGIApp, Receive, Scope, Send

from strop_hub.errors import RateLimitedError
from strop_hub.http.problems import refusal
from strop_hub.http.request_scope import REQUEST_ID

MAX_CALLERS = 100_000
_BURST_S = 10
"""A caller that was quiet may spend what this many seconds allow at once."""

_EXEMPT = frozenset({"/healthz", "/readyz", "/metrics"})


class RateLimitMiddleware:
    """Counts by token where there is one, else by address."""

    def __init__(self, app: ASGIApp, per_minute: int) -> None:
        self.app = app
        self._per_s = per_minute / 60
        self._burst = max(1.0, self._per_s * _BURST_S)
        self._callers: OrderedDict[object, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not self._per_s or scope["type"] != "http" or scope["path"] in _EXEMPT:
            await self.app(scope, receive, send)
            return
        wait_s = self._take(_caller(scope))
        if not wait_s:
            await self.app(scope, receive, send)
            return
        error = RateLimitedError(
            f"more than {self._per_s * 60:.0f} requests a minute. Repeat in {wait_s} s.",
            wait_s=wait_s,
        )
        await refusal(error, scope.get(REQUEST_ID))(scope, receive, send)

    def _take(self, caller: object) -> int:
        """Take one request from a caller's allowance; seconds to wait when there is none."""
        at = time.monotonic()
        left, seen_at = self._callers.pop(caller, (self._burst, at))
        left = min(self._burst, left + (at - seen_at) * self._per_s)
        is_allowed = left >= 1
        self._callers[caller] = (left - 1 if is_allowed else left, at)
        if len(self._callers) > MAX_CALLERS:
            self._callers.popitem(last=False)
        return 0 if is_allowed else max(1, ceil((1 - left) / self._per_s))


def _caller(scope: Scope) -> object:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return hash(value)
    client = scope.get("client")
    return client[0] if client else None
