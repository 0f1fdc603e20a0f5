"""The tools of an MCP server, by stdio or HTTP, for one episode or shared (step: author).

Needs the extra ``mcp``. Source: the Model Context Protocol, server features, tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from strop.errors import EnvironmentFaultError, EnvironmentLoadError, ToolError, ToolFaultError
from strop.types import Content, Part, ToolSpec

if TYPE_CHECKING:
    import httpx2
    import mcp

    from strop.threads import Threads

_KEEPER = Path(__file__).with_name("process_keeper.py")
_CLOSE_LIMIT_S = 4.0
"""Seconds that a server may take to leave; a program is killed before."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server whose tools an environment offers: give it to ``Environment(servers=…)``.

    A program ends with its connection, and also when this process is killed: with all that it
    started. Its tools' texts, images and sounds become the parts of tool messages.

    Example:
        >>> server = McpServer(command=("python", "-m", "my_server"))
        >>> environment = Environment(tasks=tasks, rewards=rewards, servers=[server])
    """

    command: Sequence[str] = ()
    """Program and arguments of a server that speaks over stdio."""
    url: str = ""
    """Address of a server that speaks streamable HTTP."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of every request to a `url`, such as ``{"authorization": f"Bearer {token}"}``; never told in
    records or messages."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the program besides the few that every program needs; none else is passed on."""
    cwd: str | None = None
    is_shared: bool = False
    """One connection, or program, for all episodes; otherwise each has its own."""
    is_parallel: bool = False
    """Whether calls that stand together in one turn may run at the same time."""
    start_limit_s: float = 300.0
    """Seconds that starting and listing the tools may take; programs of many episodes that start
    at once share the processors."""
    call_limit_s: float = 300.0
    """Seconds that one call may take."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("An MCP server needs either a command or a url.")
        if self.headers and not self.url:
            raise ValueError("Only an MCP server with a url takes headers. Give a program `env`.")
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
        limit = asyncio.timeout(self.start_limit_s)
        try:
            async with limit:
                await connection.open()
        except BaseException as error:
            await connection.close()
            if not isinstance(error, Exception):
                raise
            cause, remedy = connection.explain(error), "Start it by hand to see why."
            if connection.refusal:
                remedy = "Check its `headers`."
            elif limit.expired():
                cause = f"no answer within {self.start_limit_s:g} s"
                remedy = "Start it by hand to see why, or raise `start_limit_s`."
            raise EnvironmentFaultError(
                f"The MCP server `{self.where}` gives no tools: {cause}. {remedy}"
            ) from error
        return connection

    @property
    def where(self) -> str:
        """What to call it in messages; query and user of an address may be secrets."""
        if self.command:
            return " ".join(self.command)
        parts = urlsplit(self.url)
        return parts._replace(query="", netloc=parts.netloc.rpartition("@")[2]).geturl()


class McpConnection:
    """A live connection; its tools work until it is closed."""

    def __init__(self, server: McpServer) -> None:
        self.tools: tuple[McpTool, ...] = ()
        self.refusal = ""
        """What the server said to credentials that it does not take."""
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
            _, late = await asyncio.wait([self._holder], timeout=_CLOSE_LIMIT_S)
            if late:
                self._holder.cancel()
            # How a server left is no news once nobody asks it anything.
            await asyncio.gather(self._holder, return_exceptions=True)

    def explain(self, error: BaseException) -> str:
        """The cause of a failed exchange, without the server's address."""
        if self.refusal:
            return self.refusal
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        text = str(error)
        if self._server.url:
            text = text.replace(self._server.url, self._server.where)
        return f"{type(error).__name__}: {text}" if text else type(error).__name__

    async def _hold(self, ready: asyncio.Future[None]) -> None:
        from mcp import Client

        async with (
            self._transport() as transport,
            Client(transport) as client,
        ):
            self.tools = tuple([McpTool(client, each, self) for each in await _list(client)])
            ready.set_result(None)
            await self._is_closing.wait()

    @property
    def is_parallel(self) -> bool:
        """Whether calls of one turn may run at the same time."""
        return self._server.is_parallel

    @property
    def call_limit_s(self) -> float:
        """Seconds that one call may take."""
        return self._server.call_limit_s

    @property
    def where(self) -> str:
        """What to call the server in messages."""
        return self._server.where

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        server = self._server
        if server.command:
            yield _program(server)
            return
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async with httpx2.AsyncClient(
            headers=dict(server.headers),
            # A call's own limit is `call_limit_s`, and as many may wait as rollouts are in flight.
            timeout=httpx2.Timeout(None, connect=server.start_limit_s),
            limits=httpx2.Limits(max_connections=None),
            event_hooks={"response": [self._note_refusal]},
        ) as client:
            yield streamable_http_client(server.url, http_client=client)

    async def _note_refusal(self, response: httpx2.Response) -> None:
        if response.status_code in (401, 403):
            self.refusal = f"it answered {response.status_code} {response.reason_phrase}"


class McpTool:
    """One tool of a server."""

    def __init__(self, client: mcp.Client, described: mcp.Tool, connection: McpConnection) -> None:
        self.name = described.name
        self.spec = ToolSpec(described.name, described.description or "", described.input_schema)
        self._client = client
        self._connection = connection

    @property
    def origin(self) -> str:
        """Whose it is, for messages."""
        return f"the MCP server `{self._connection.where}`"

    @property
    def is_parallel(self) -> bool:
        """Whether calls of one turn may run at the same time."""
        return self._connection.is_parallel

    async def call(self, owner: object, arguments: str, threads: Threads) -> Content:
        """Ask the server.

        Raises:
            ToolError: The arguments are no JSON object, or the tool reports an error.
            ToolFaultError: The server is gone, does not answer in time or breaks the protocol.
        """
        from mcp import MCPError
        from mcp.types import INVALID_PARAMS

        given = self._parse(arguments)
        try:
            result = await self._client.call_tool(
                self.name, given, read_timeout_seconds=self._connection.call_limit_s
            )
        except MCPError as error:
            if error.error.code == INVALID_PARAMS:
                raise ToolError(error.error.message) from error
            raise self._fault(error) from error
        except Exception as error:
            raise self._fault(error) from error
        content = _content(result)
        if result.is_error:
            raise ToolError(content if isinstance(content, str) else _text(content))
        return content

    def _parse(self, arguments: str) -> dict[str, Any]:
        try:
            given = json.loads(arguments or "{}")
            json.dumps(given, ensure_ascii=False).encode()
        except ValueError as error:
            raise ToolError(f"Wrong arguments for `{self.name}`: {error}") from None
        if not isinstance(given, dict):
            raise ToolError(f"Wrong arguments for `{self.name}`: give a JSON object.")
        return given

    def _fault(self, error: Exception) -> ToolFaultError:
        from mcp.types import REQUEST_TIMEOUT

        cause = self._connection.explain(error)
        if getattr(error, "code", None) == REQUEST_TIMEOUT:
            cause = f"no answer within {self._connection.call_limit_s:g} s"
        return ToolFaultError(f"The MCP tool `{self.name}` failed: {cause}")


def _program(server: McpServer) -> mcp.StdioServerParameters:
    from mcp import StdioServerParameters

    program, *arguments = server.command
    place = os.path.join(server.cwd or "", program) if os.path.dirname(program) else program
    if shutil.which(place, path=server.env.get("PATH")) is None:
        raise FileNotFoundError(f"there is no program {program}")
    keeper = [sys.executable, "-I", "-S", str(_KEEPER), str(os.getpid())]
    command = [*(keeper if os.name == "posix" else ()), program, *arguments]
    return StdioServerParameters(
        command=command[0],
        args=command[1:],
        env=dict(server.env),
        cwd=server.cwd,
        # What is no UTF-8 is no message either; it must not end the connection.
        encoding_error_handler="replace",
    )


async def _list(client: mcp.Client) -> list[mcp.Tool]:
    tools: list[mcp.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tools


def _content(result: mcp.types.CallToolResult) -> Content:
    """Plain text where there is nothing else; parts otherwise."""
    parts = tuple([_part(each) for each in result.content])
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content)
    return _text(parts) if all(part.kind == "text" for part in parts) else parts


def _text(parts: Sequence[Part]) -> str:
    return "\n".join(f"[{part.kind}]" if part.text is None else part.text for part in parts)


def _part(block: Any) -> Part:
    """A block of a result; what a message has no place for is named."""
    resource = getattr(block, "resource", block)
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return Part("text", text=text)
    data = getattr(resource, "data", None) or getattr(resource, "blob", None)
    media_type = str(getattr(resource, "mime_type", None) or "")
    url = f"data:{media_type};base64,{data}"
    if data and media_type.startswith("image/"):
        return Part("image", url=url, media_type=media_type)
    if data and media_type.startswith("audio/"):
        return Part("audio", url=url, media_type=media_type)
    named = (block.type, media_type, str(getattr(resource, "uri", None) or ""))
    return Part("text", text=f"[{' '.join(filter(None, named))}]")
