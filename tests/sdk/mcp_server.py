"""A real MCP server for tests: ``python -m tests.sdk.mcp_server [http [TOKEN]]``.

Without an argument it speaks over stdio. Otherwise it chooses a port, tells it in a line of its
standard output, and with a token answers nobody else.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from typing import Any

from mcp.server.mcpserver import Audio, Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import EmbeddedResource, TextContent, TextResourceContents

server = MCPServer("notes")
_notes: list[str] = []
_pair = asyncio.Barrier(2)


@server.tool()
def add(left: int, right: int) -> str:
    """Add two numbers."""
    return str(left + right)


@server.tool()
def note(text: str) -> str:
    """Keep a note; says how many there are."""
    _notes.append(text)
    return str(len(_notes))


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("it went wrong")


@server.tool()
def crash() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def environment() -> str:
    """The names of the variables that the server has."""
    return " ".join(sorted(os.environ))


@server.tool()
def nap(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "awake"


@server.tool()
def family() -> str:
    """Start two programs, one in a session of its own; the numbers of all three."""
    child = subprocess.Popen(["sleep", "600"])
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    return f"{os.getpid()} {child.pid} {other.pid}"


@server.tool()
def rubbish() -> str:
    """Write what is no message where messages belong."""
    os.write(1, b"Starting...\n\xff\xfe{\n[1, 2\n\n")
    return "still here"


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """A text, an image, a sound and a resource."""
    resource = TextResourceContents(uri="file:///notes.txt", text="of a resource")
    return [
        TextContent(text="Look:"),
        Image(data=b"\x89PNG", format="png"),
        Audio(data=b"RIFF", format="wav"),
        EmbeddedResource(resource=resource),
    ]


@server.tool()
async def meet(limit_s: float) -> str:
    """Wait for another call; says whether it came."""
    try:
        async with asyncio.timeout(limit_s):
            await _pair.wait()
    except TimeoutError:
        return "alone"
    return "met"


@server.tool()
def caller(context: Context[Any]) -> str:
    """The port of the connection that a call over HTTP came by, and its header `x-episode`."""
    request: Any = context.request_context.request
    return f"{request.client.port} {request.headers.get('x-episode')}"


def serve_http(token: str) -> None:
    """Serve on a port of the system's choice."""
    import uvicorn

    app = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        said = dict(scope.get("headers") or ()).get(b"authorization", b"").decode()
        if scope["type"] == "http" and token and said != f"Bearer {token}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(guarded, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        serve_http(sys.argv[2] if len(sys.argv) > 2 else "")
    else:
        server.run()
