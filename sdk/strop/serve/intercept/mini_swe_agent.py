"""mini-swe-agent as a policy whose commands run in the episode's sandbox (step: rollout)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import ClassVar

from strop.sandbox.repository import ROOT
from strop.sandboxed.episode import SandboxEpisode
from strop.serve.intercept.episode import AgentEpisode
from strop.serve.intercept.program import Program

_BRIDGE = Path(__file__).with_name("bridge.py")
_LONGEST_COMMAND_BYTES = 16 << 20


class MiniSweAgentEpisode(AgentEpisode, SandboxEpisode):
    """The package mini-swe-agent, unchanged, works on the episode's `source`.

    The agent itself runs as this user; what the model has it do runs in the sandbox. Its
    environment gets ``tools=()``: the agent brings its own.

    Example:
        >>> class Repair(MiniSweAgentEpisode):
        ...     command = "/opt/mini-swe-agent/bin/mini"
    """

    command: ClassVar[str] = "mini"
    """Where it is; it may be installed in an environment of its own."""
    limit_s: ClassVar[float] = 1800.0
    """Seconds that the agent may take."""

    _server: asyncio.Server | None = None

    async def prepare(self) -> None:
        """Open the sandbox, and a socket that leads into it."""
        # Past the agent's own: what follows it in the order of classes opens the sandbox.
        await super(AgentEpisode, self).setup()
        (self.folder / "strop_bridge.py").write_bytes(_BRIDGE.read_bytes())
        self._server = await asyncio.start_unix_server(
            self._serve, str(self.folder / "socket"), limit=_LONGEST_COMMAND_BYTES
        )

    def program(self) -> Program:
        """The agent, without its questions to a person."""
        options = ["--yolo", "--exit-immediately", "--cost-limit", "0", "--model", "openai/policy"]
        options += ["--environment-class", "strop_bridge.SandboxedEnvironment"]
        env = {
            "MSWEA_SANDBOX_SOCKET": str(self.folder / "socket"),
            "PYTHONPATH": str(self.folder),
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": str(self.folder / "config"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        argv = [self.command, *options, "--task", self.task.prompt[0].text]
        return Program(argv, env, limit_s=self.limit_s)

    async def close(self) -> None:
        """End the agent, then the sandbox."""
        try:
            await AgentEpisode.close(self)
        finally:
            if self._server is not None:
                self._server.close()
            await super(AgentEpisode, self).close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one command."""
        try:
            command = json.loads(await reader.readline())
            argv = ["bash", "-c", f"exec 2>&1\n{command}"]
            result = await self.workspace.sandbox.exec(argv, cwd=ROOT)
            note = "" if result.limit is None else f"the limit {result.limit} was passed"
            code = -1 if result.exit_code is None else result.exit_code
            answer = {"output": result.text, "returncode": code, "exception_info": note}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        finally:
            writer.close()
