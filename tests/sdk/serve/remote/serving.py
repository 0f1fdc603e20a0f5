"""Servers of environments: on a loop of its own in this process, and as a real command."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strop import Environment
from strop.serve.client import RemoteEnvironment
from strop.serve.server import EnvironmentServer

SECRET = "not so secret"
_STROP = (sys.executable, "-c", "from strop.cli import main; main()")


@dataclass
class Serving:
    """A server that runs on another thread's event loop."""

    url: str
    server: EnvironmentServer

    def connect(self, **options: Any) -> RemoteEnvironment:
        return RemoteEnvironment(self.url, SECRET, **options)


@contextlib.contextmanager
def serving(environment: Environment, *, lease_s: float = 60.0) -> Iterator[Serving]:
    """Serve an environment while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = EnvironmentServer(environment, SECRET, lease_s=lease_s)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(120)
        yield Serving(server.url, server)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(120)
        loop.close()


@dataclass
class Command:
    """`strop serve` in a process of its own."""

    process: subprocess.Popen[str]
    document: dict[str, Any]

    def connect(self, **options: Any) -> RemoteEnvironment:
        return RemoteEnvironment(self.document["url"], self.document["secret"], **options)

    def workers(self) -> list[int]:
        """The worker processes."""
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def command(folder: Path, *options: str) -> Iterator[Command]:
    """Run `strop serve FOLDER` while the block runs."""
    with start(folder, options) as process:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line == "}\n":
                break
        yield Command(process, json.loads(text))


@contextlib.contextmanager
def start(folder: Path, options: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [*_STROP, "serve", str(folder), "--json", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=120)
        finally:
            process.kill()


PROJECT = """
[project]
name = "{name}"
version = "0.3.0"
description = "Count."
requires-python = ">=3.11"
dependencies = ["strop"]
license = "Apache-2.0"
[project.entry-points."strop.environments"]
{name} = "{module}:load_environment"
[tool.strop]
category = "logic"
tags = ["multi-turn"]
reward-range = [0, 1]
deterministic = true
sandbox = "none"
"""

MODULE = '''
"""Count to a number."""
import asyncio, pathlib
import strop

class Count(strop.Episode):
    async def setup(self):
        self.at = 0
        self.mark = pathlib.Path(self.task.metadata["folder"]) / self.task.key
        self.mark.touch()

    async def respond(self, completion):
        if completion.text == "wait":
            await asyncio.sleep(3600)
        self.at += 1
        self.outcome["at"] = self.at
        return strop.End() if self.at == 3 else f"{self.at}"

    async def close(self):
        self.mark.unlink()

@strop.reward(range=(0, 1))
def counted(trajectory):
    return trajectory.outcome["at"] / 3

def load_environment(folder: str = "", size: int = 4) -> strop.Environment:
    tasks = [strop.Task(str(n), f"Count {n}.", metadata={"folder": folder}) for n in range(size)]
    return strop.Environment(tasks=tasks, rewards=[counted], episode=Count)
'''


def write_project(folder: Path, *, module: str = MODULE) -> Path:
    """An author's folder with a counting environment; its episodes leave a file while they live."""
    (folder / "count_env").mkdir(parents=True)
    (folder / "count_env" / "__init__.py").write_text(module)
    (folder / "README.md").write_text("# Count\n")
    (folder / "pyproject.toml").write_text(PROJECT.format(name="count-env", module="count_env"))
    return folder
