"""An attempt at a repair: with tools, or by mini-swe-agent in the same sandbox."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from strop import StropError, Trajectory, reward
from strop.errors import SettingsError, SpoiledWorkspaceError
from strop.sandbox.archive import pack_files
from strop.sandbox.repository import ROOT
from strop.sandboxed import SandboxEnvironment, SandboxEpisode
from strop.sandboxed.faults import Fault
from strop.sandboxed.protected import kept_sources, visible_in_sandbox
from strop.serve.intercept.mini_swe_agent import MiniSweAgentEpisode
from swe_env.library import DATA


class Repair(SandboxEpisode):
    """The model works on a library with a fault; a copy of its work is judged elsewhere."""

    libraries: ClassVar[Mapping[str, Any]] = {}

    async def setup(self) -> None:
        """Nothing is repaired before it is judged."""
        reference: Any = self.task.reference
        self.fault, self.library = Fault(**reference["fault"]), self.libraries[reference["library"]]
        self.outcome.update(solved=False, repaired=0.0, scoring_isolation=self.library.isolation)
        await super().setup()

    @property
    def source(self) -> bytes:
        """The library with its fault, and the tests that may be seen."""
        return pack_files(self.library.shown(self.fault))

    async def score(self, queue_s: float = 0.0) -> Trajectory:
        """Judge what was left in the sandbox, then score."""
        try:
            archive = await self.workspace.sandbox.snapshot(ROOT)
            sources = await asyncio.to_thread(kept_sources, archive, self.library.sources)
            failing = await self.library.failing(self.backend, sources)
        except SpoiledWorkspaceError as error:
            # Whoever works there did this, and has not repaired anything.
            self.outcome["spoiled"] = str(error)
        except StropError as error:
            self.fail(error)
        else:
            broken = self.fault.failing
            seen = sum(self.library.is_visible(test, self.fault) for test in failing)
            self.outcome.update(
                solved=not failing,
                repaired=1 - len(broken.keys() & failing.keys()) / len(broken),
                failing_visible=seen,
                failing_hidden=len(failing) - seen,
            )
        return await super().score(queue_s)


class MiniSweAgentRepair(MiniSweAgentEpisode, Repair):
    """mini-swe-agent, as it is, does the work; its model is the policy."""


async def run_tests(episode: Repair) -> str:
    """Run the tests that you can see, and tell which fail."""
    result = await episode.workspace.sandbox.exec(f"{episode.library.command} 2>&1", cwd=ROOT)
    return result.text[-8000:] or f"[{result.status}]"


class RepairEnvironment(SandboxEnvironment):
    """Refuses to open where a sandbox would show this package, and with it every solution."""

    packages: Sequence[str] = ()
    """Names of modules that no sandbox may have."""

    async def setup(self) -> None:
        """Open the backend, and look for solutions from within."""
        await super().setup()
        seen = await visible_in_sandbox(self.backend, [str(DATA)], self.packages)
        if seen:
            await self.close()
            raise SettingsError(
                f"The sandbox shows {', '.join(seen)}, where solutions are: this package, or "
                "the one to be repaired, is installed beside the interpreter's own modules. "
                "Install it into a virtual environment."
            )


@reward(range=(0, 1), inline=True)
def solved(trajectory: Trajectory) -> float:
    """Whether every test passes, seen and unseen."""
    return float(trajectory.outcome["solved"] is True)


@reward(weight=0.0, range=(0, 1), inline=True)
def repaired(trajectory: Trajectory) -> float:
    """Which share of the tests that the fault broke pass."""
    share: Any = trajectory.outcome["repaired"]
    return float(share)
