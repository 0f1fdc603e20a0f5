"""HTTP/1.1 over asyncio and h11, the server's side: what interception and environments share."""

from strop.serve.http.message import Answer, Request, json_answer
from strop.serve.http.server import HttpServer

__all__ = ["Answer", "HttpServer", "Request", "json_answer"]
