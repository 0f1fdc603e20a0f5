"""HTTP/1.1 over asyncio and h11: a pool that stays cheap with thousands of calls in flight."""

from strop.models.http.message import Limits, Request, Response, Url
from strop.models.http.pool import HttpPool, StreamedResponse
from strop.models.http.proxy import Proxies

__all__ = ["HttpPool", "Limits", "Proxies", "Request", "Response", "StreamedResponse", "Url"]
