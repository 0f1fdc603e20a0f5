"""A real MCP server for tests: ``python -m tests.sdk.mcp_server [PORT]`` (stdio without one)."""

import os
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("notes")
_notes: list[str] = []


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


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
