"""Start a server of environments as a child process, and be its client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from strop.errors import EnvironmentLoadError
from strop.serve.client import SILENCE_S, RemoteEnvironment

_TAIL_BYTES = 4_000
_END_LIMIT_S = 10.0


@contextlib.asynccontextmanager
async def launch(
    target: str | Path,
    *,
    python: str | Path = sys.executable,
    settings: Mapping[str, str] | None = None,
    worker_count: int = 1,
    start_limit_s: float = 600.0,
    silence_s: float = SILENCE_S,
) -> AsyncIterator[RemoteEnvironment]:
    """Run `strop serve` while the block runs, and give the environment that it serves.

    Args:
        target: A name, a reference or an author's folder.
        python: The interpreter that has the environment installed, such as another virtual
            environment's.
        settings: For ``load_environment``, as on the command line.
        worker_count: Processes.
        start_limit_s: Seconds that loading may take.
        silence_s: See `RemoteEnvironment`.

    Raises:
        EnvironmentLoadError: It does not start; the message ends with what it printed.
    """
    command = [str(python), "-c", "from strop.cli import main; main()", "serve", str(target)]
    command += ["--json", "--workers", str(worker_count), "--grace", "0"]
    command += [f"--set={name}={value}" for name, value in (settings or {}).items()]
    with tempfile.TemporaryFile() as output:
        server = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            document = await _document(server, target, start_limit_s, output)
            url, secret = document["url"], document["secret"]
            async with RemoteEnvironment(url, secret, silence_s=silence_s) as environment:
                yield environment
        finally:
            await _end(server)


async def _document(
    server: asyncio.subprocess.Process, target: str | Path, limit_s: float, output: Any
) -> dict[str, Any]:
    assert server.stdout is not None
    lines: Sequence[bytes] = []
    try:
        async with asyncio.timeout(limit_s):
            lines = [line async for line in _lines(server.stdout)]
    except TimeoutError:
        raise EnvironmentLoadError(
            f"{target} was not ready within {limit_s:g} s. It printed: {_tail(output)}"
        ) from None
    try:
        document = json.loads(b"".join(lines))
    except ValueError:
        document = {}
    if "url" in document:
        return dict(document)
    cause = document.get("error", {}).get("message", "It ended before it was ready.")
    await server.wait()
    raise EnvironmentLoadError(f"{target} cannot be served. {cause} It printed: {_tail(output)}")


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of one JSON document, its end included."""
    async for line in stream:
        yield line
        if line == b"}\n":
            return


async def _end(server: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        server.terminate()
    try:
        async with asyncio.timeout(_END_LIMIT_S):
            await server.wait()
    except TimeoutError:
        pass
    finally:
        if server.returncode is None:
            # Its workers notice, and end as well.
            with contextlib.suppress(ProcessLookupError):
                server.kill()
            await server.wait()


def _tail(output: Any) -> str:
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - _TAIL_BYTES))
    return str(output.read().decode("utf-8", "replace")).strip()
