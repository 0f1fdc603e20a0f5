"""Runs mini-swe-agent's commands at the other end of a socket; it is copied to where that runs.

It imports nothing of ours: the agent may live in an environment of its own.
"""

import json
import os
import socket
from typing import Any

from minisweagent.environments.local import LocalEnvironment


class SandboxedEnvironment(LocalEnvironment):  # type: ignore[misc]
    """Looks like the agent's own machine, and is the rollout's sandbox."""

    def execute(self, action: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        """Run a command in the sandbox."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(os.environ["MSWEA_SANDBOX_SOCKET"])
            line.sendall(json.dumps(action.get("command", "")).encode() + b"\n")
            with line.makefile("rb") as answers:
                output: dict[str, Any] = json.loads(answers.readline())
        self._check_finished(output)
        return output
