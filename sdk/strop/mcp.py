"""The tools of an MCP server, by stdio or HTTP, for one episode or shared (step: author).

Needs the extra ``mcp``. Source: the Model Context Protocol, server features, tools.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strop.errors import EnvironmentFaultError, EnvironmentLoadError, ToolError, ToolFaultError
from strop.types import End, ToolSpec

if TYPE_CHECKING:
    import mcp

    from strop.threads import Threads


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server whose tools an environment offers: give it to ``Environment(servers=…)``.

    Example:
        >>> server = McpServer(command=("python", "-m", "my_server"))
        >>> environment = Environment(tasks=tasks, rewards=rewards, servers=[server])
    """

    command: Sequence[str] = ()
    """Program and arguments of a server that speaks over stdio."""
    url: str = ""
    """Address of a server that speaks streamable HTTP."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the program besides the few that every program needs; none else is passed on."""
    cwd: str | None = None
    is_shared: bool = False
    """One for all episodes of an environment; otherwise each has its own."""
    start_limit_s: float = 60.0
    """Seconds that starting and listing the tools may take."""
    call_limit_s: float = 300.0
    """Seconds that one call may take."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("An MCP server needs either a command or a url.")
        if importlib.util.find_spec("mcp") is None:
            raise EnvironmentLoadError(
                "MCP servers need the package mcp, which is not installed: pip install 'strop[mcp]'"
            )

    async def connect(self) -> McpConnection:
        """Start or reach the server and list its tools.

        Raises:
            EnvironmentFaultError: It does not start, does not answer or speaks no MCP.
        """
        connection = McpConnection(self)
        try:
            async with asyncio.timeout(self.start_limit_s):
                await connection.open()
        except BaseException as error:
            await connection.close()
            if not isinstance(error, Exception):
                raise
            where = self.url or " ".join(self.command)
            raise EnvironmentFaultError(
                f"The MCP server `{where}` gives no tools: {_cause(error)}. "
                "Start it by hand to see why."
            ) from error
        return connection


class McpConnection:
    """A live connection; its tools work until it is closed."""

    def __init__(self, server: McpServer) -> None:
        self.tools: tuple[McpTool, ...] = ()
        self._server = server
        self._is_closing = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and list the tools."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The client must be left by the task that entered it, whoever closes the connection.
        self._holder = asyncio.create_task(self._hold(ready))
        await asyncio.wait([ready, self._holder], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            self._holder.result()
        ready.result()

    async def close(self) -> None:
        """Leave the server; a program that we started ends. A second call does nothing."""
        self._is_closing.set()
        if self._holder is not None:
            if not self.tools:
                self._holder.cancel()
            await asyncio.wait([self._holder])

    async def _hold(self, ready: asyncio.Future[None]) -> None:
        from mcp import Client, StdioServerParameters

        server = self._server
        target: Any = server.url
        if server.command:
            program, *arguments = server.command
            target = StdioServerParameters(
                command=program, args=arguments, env=dict(server.env), cwd=server.cwd
            )
        async with Client(target, read_timeout_seconds=server.call_limit_s) as client:
            self.tools = tuple(McpTool(client, each) for each in await _list(client))
            ready.set_result(None)
            await self._is_closing.wait()


class McpTool:
    """One tool of a server."""

    def __init__(self, client: mcp.Client, described: mcp.Tool) -> None:
        self.name = described.name
        self.spec = ToolSpec(described.name, described.description or "", described.input_schema)
        self._client = client

    async def call(self, owner: object, arguments: str, threads: Threads) -> str | End:
        """Ask the server.

        Raises:
            ToolError: The arguments are no JSON object, or the tool reports an error.
            ToolFaultError: The server is gone, or breaks the protocol.
        """
        from mcp import MCPError

        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            raise ToolError(f"Wrong arguments for `{self.name}`: {error}") from None
        if not isinstance(given, dict):
            raise ToolError(f"Wrong arguments for `{self.name}`: give a JSON object.")
        try:
            result = await self._client.call_tool(self.name, given)
        except MCPError as error:
            if error.error.code in _TOLD_TO_THE_MODEL:
                raise ToolError(error.error.message) from error
            raise ToolFaultError(f"The MCP tool `{self.name}` failed: {error}") from error
        except Exception as error:
            raise ToolFaultError(f"The MCP tool `{self.name}` failed: {_cause(error)}") from error
        text = "\n".join(_as_text(part) for part in result.content)
        if result.is_error:
            raise ToolError(text)
        return text


_TOLD_TO_THE_MODEL = frozenset({-32602})
"""JSON-RPC's invalid parameters."""


async def _list(client: mcp.Client) -> list[mcp.Tool]:
    tools: list[mcp.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tools


def _as_text(part: Any) -> str:
    text = getattr(part, "text", None)
    if isinstance(text, str):
        return text
    kind = getattr(part, "mime_type", None) or ""
    return f"[{getattr(part, 'type', 'content')} {kind}]".replace(" ]", "]")


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
