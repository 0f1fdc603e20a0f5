"""A program behind the interception of `verifiers` (v1): 1, 1, CALLS, PROGRAM; ms CPU a call.

Only what happens while the program runs is timed: its rollout around it is not.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import verifiers.v1 as vf
import verifiers_v1 as peer

CALL_COUNT, PROGRAM = int(sys.argv[3]), sys.argv[4]


class ProgramTaskset(peer.ReverseTaskset):
    """One task, whose answer is the last reply of the program."""

    def load(self):
        answer = f"request {CALL_COUNT - 1} of this run, please"[::-1]
        data = peer.ReverseData(prompt="Call.", answer=answer)
        yield peer.ReverseTask(data, self.config.task)


class ProgramHarness(peer.DirectHarness):
    """The program, as a process of its own."""

    used_s = 0.0

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, *more, **named):
        """Run it to its end."""
        began = time.process_time()
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM,
            env={"OPENAI_BASE_URL": endpoint, "OPENAI_API_KEY": secret},
        )
        exit_code = await child.wait()
        ProgramHarness.used_s = time.process_time() - began
        return vf.ProgramResult(exit_code=exit_code, stdout="", stderr="")


def main() -> None:
    """Run once."""
    peer.ReverseTaskset, peer.DirectHarness = ProgramTaskset, ProgramHarness
    peer.plug_in()
    module = sys.modules[peer.PEER]
    module.__all__ = ["ProgramHarness", "ProgramTaskset"]
    module.ProgramTaskset, module.ProgramHarness = ProgramTaskset, ProgramHarness
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(peer.measure(Path(folder)))
    print(json.dumps({"cpu_ms": ProgramHarness.used_s / CALL_COUNT * 1_000}))


main()
