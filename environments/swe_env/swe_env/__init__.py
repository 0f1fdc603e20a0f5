"""Repair a library: an issue, a repository in a sandbox, and tests that are not all to be seen."""

import random
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from strop import Environment, Task
from strop.config import cache_folder
from strop.errors import SettingsError
from strop.hub.index import fetch_sdist
from strop.sandbox import Limits, SandboxSpec
from strop.sandboxed import sandbox_tools
from strop.sandboxed.faults import Fault
from strop.sandboxed.package import package_spec
from strop.tools import Tool
from swe_env.episode import (
    MiniSweAgentRepair,
    Repair,
    RepairEnvironment,
    repaired,
    run_tests,
    solved,
)
from swe_env.instances import instance_environment
from swe_env.library import CaseLibrary, read_text, script_of
from swe_env.package import PackageLibrary

__all__ = ["load_environment"]

NAMES = ("calc", "columns", "dates", "intervals", "semver")
"""The libraries of this package."""
_SPEC = SandboxSpec(limits=Limits(wall_s=60.0, cpu_s=20.0, memory_bytes=512 << 20))
_EVAL_SHARE = 5
"""One fault of so many belongs to ``eval``."""
_TOLD_COUNT = 3
"""Failing tests that an issue tells."""


def load_environment(
    agent: Literal["tools", "mini-swe-agent"] = "tools",
    program: str = "mini",
    *,
    source: Literal["own", "index", "rows"] = "own",
    packages: tuple[str, ...] = (),
    path: str | None = None,
    columns: dict[str, str] | None = None,
    fault_count: int = 20,
    seed: int = 0,
    max_turns: int = 40,
) -> Environment:
    """The environment.

    Args:
        agent: The model works with tools, or inside of mini-swe-agent.
        program: Where mini-swe-agent's command is, in an environment of its own if need be.
        source: Libraries of this package, source distributions of others, or rows of SWE-bench.
        packages: Such as ``toolz==1.0.0``, from the index that pip is set to.
        path: A source distribution that is here already; of rows a file, a folder or
            ``hf://owner/name``, and None SWE-bench Verified (extra ``hf``).
        columns: Of rows: from the names that SWE-bench has, ``image`` and ``test_command`` to those
            of the columns, where they differ.
        fault_count: Faults of each of these, at most.
        seed: Of the order of the tasks, and of the faults that are sought in packages.
        max_turns: Completions of an attempt.
    """
    if source == "rows" and not packages:
        return instance_environment(agent, program, path, columns or {}, max_turns)
    if (source == "index") != bool(packages or path) or columns:
        raise SettingsError(
            'source="index" goes with packages=("name==version",) or path="….gz", "rows" with '
            'path="….json" and columns.'
        )
    libraries: dict[str, Any] = {name: CaseLibrary(name) for name in NAMES}
    if source == "index":
        files = [fetch_sdist(each, cache_folder() / "sdists") for each in packages]
        files += [Path(path)] if path else []
        found = [PackageLibrary(file, fault_count, seed) for file in files]
        libraries = {library.name: library for library in found}
    base = Repair if agent == "tools" else MiniSweAgentRepair
    episode = type(base.__name__, (base,), {"libraries": libraries, "command": program})
    tools = sandbox_tools("bash", "view_file", "write_file", "edit_file")
    tools.append(Tool("run_tests", run_tests))
    environment = RepairEnvironment(
        tasks=_tasks(libraries, seed),
        rewards=[solved, repaired],
        episode=episode,
        tools=tools if agent == "tools" else [],
        max_turns=max_turns,
        spec=package_spec() if source == "index" else _SPEC,
        oracle=lambda task: _repair(libraries, task, agent),
    )
    environment.packages = [name for each in libraries.values() for name in each.modules]
    return environment


def _tasks(libraries: dict[str, Any], seed: int) -> dict[str, list[Task]]:
    """One task for each fault; the digest of its text decides on its split."""
    splits: dict[str, list[Task]] = {"train": [], "eval": []}
    seen: set[str] = set()
    for library in libraries.values():
        for index, fault in enumerate(library.faults):
            task = _task(library, index, fault)
            text = task.prompt[0].text
            if text not in seen:
                seen.add(text)
                is_eval = sha256(text.encode()).digest()[0] % _EVAL_SHARE == 0
                splits["eval" if is_eval else "train"].append(task)
    for tasks in splits.values():
        random.Random(seed).shuffle(tasks)  # noqa: S311 - an order, not a secret
    return {split: tasks for split, tasks in splits.items() if tasks}


def _task(library: Any, index: int, fault: Fault) -> Task:
    told = library.told(fault)[:_TOLD_COUNT]
    pieces = {"name": library.name, "failing": "\n".join(told), "command": library.command}
    reference: Any = {"library": library.name, "fault": asdict(fault)}
    metadata: Any = {"library": library.name, "failing_count": len(fault.failing)}
    return Task(f"{library.name}/{index}", read_text("issue.txt", **pieces), reference, metadata)


def _repair(libraries: dict[str, Any], task: Task, agent: str) -> list[Any]:
    """Give the changed piece back what it was."""
    reference: Any = task.reference
    fault = Fault(**reference["fault"])
    source = libraries[reference["library"]].sources[fault.path].encode()
    rest = fault.start + len(fault.text.encode())
    script = (
        f"p = {fault.path!r}; s = open(p, 'rb').read(); open(p, 'wb').write("
        f"s[:{fault.start}] + {source[fault.start : fault.end]!r} + s[{rest}:])"
    )
    return script_of(agent, f"python3 -c {quote(script)}")
