"""Start the engine's process, wait until it answers, and end it whatever happens."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Self

from strop.errors import ConfigError, ModelUnavailableError

_STOP_S = 5.0
_SHOWN_BYTES = 1500
_ENGINE = "strop.models.local.engine"


class LocalServer:
    """A model on this machine behind an endpoint on loopback; a context manager.

    The engine runs in a process of its own, which ends with this one, even where this one is
    killed: it holds the other end of a pipe.

    Args:
        path: The weights, a GGUF file.
        model: As requests call it.
        port: 0 for any free one.
        slots: Completions in flight at once; further ones wait.
        context_tokens: Of each of them, prompt and completion together.
        threads: 0 for one fewer than there are processors. They wait for each other, so that
            one that has no processor to itself holds up all.
        template: Another chat template than that of the file.
        start_s: How long the weights may take to load.

    Raises:
        ConfigError: The extra ``local`` is missing.
        ModelUnavailableError: The engine did not start; the message holds what it said.

    Example:
        >>> with LocalServer(path, "smollm2") as server:
        ...     model = OpenAIModel(server.model, server.base_url, engine="llama.cpp")
    """

    def __init__(
        self,
        path: Path,
        model: str,
        *,
        port: int = 0,
        slots: int = 4,
        context_tokens: int = 2048,
        threads: int = 0,
        template: str | None = None,
        start_s: float = 120.0,
    ) -> None:
        require_engine()
        self.model = model
        self.base_url = ""
        """Ends in ``/v1``."""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(
            [sys.executable, "-m", _ENGINE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        settings = {
            "path": str(path),
            "model": model,
            "port": port,
            "slots": slots,
            "context_tokens": context_tokens,
            "threads": threads or max(1, (os.cpu_count() or 1) - 1),
            "template": template,
        }
        try:
            self.base_url = f"{self._begin(settings, start_s)}/v1"
        except BaseException:
            self.stop()
            raise

    @property
    def is_running(self) -> bool:
        """Whether the engine's process lives."""
        return self._process.poll() is None

    def log(self) -> str:
        """The end of what the engine has said."""
        descriptor = self._log.fileno()
        begin = max(0, os.fstat(descriptor).st_size - _SHOWN_BYTES)
        # Not by seeking: the engine's process writes where this very file stands.
        return os.pread(descriptor, _SHOWN_BYTES, begin).decode("utf-8", "replace").strip()

    def wait(self) -> int:
        """Wait until the engine ends by itself; its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """End the engine; what it was sampling is lost. It can be repeated."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _begin(self, settings: dict[str, Any], start_s: float) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(settings) + "\n")
        stdin.flush()
        deadline = time.monotonic() + start_s
        while not select.select([stdout], [], [], 0.1)[0]:
            if time.monotonic() > deadline:
                raise ModelUnavailableError(
                    f"the engine has not loaded {settings['path']} in {start_s:g} s. It said:\n"
                    f"{self.log()}"
                )
        line = stdout.readline()
        if not line:
            raise ModelUnavailableError(
                f"the engine ended with {self._process.wait()} while it loaded"
                f" {settings['path']}. It said:\n{self.log()}"
            )
        address: str = json.loads(line)["address"]
        return address


def require_engine() -> None:
    """Name the missing extra.

    Raises:
        ConfigError: It is missing.
    """
    if find_spec("xllamacpp") is None:
        raise ConfigError(
            "A model on this machine needs the engine xllamacpp. Run: pip install 'strop[local]'"
        )
