"""Rows of SWE-bench: repositories in images of containers, and the tests that rows name."""

from collections.abc import Mapping

from strop import Environment
from strop.rows import KnownSet, open_rows, task_sets
from strop.sandboxed import sandbox_tools, swe_bench
from strop.serve.intercept.mini_swe_agent import MiniSweAgentEpisode
from strop.tools import Tool
from swe_env.episode import repaired, solved
from swe_env.library import script_of

VERIFIED = KnownSet("hf://SWE-bench/SWE-bench_Verified", {"test": "eval"})


class MiniSweAgentInstance(MiniSweAgentEpisode, swe_bench.InstanceEpisode):
    """mini-swe-agent, as it is, does the work; its model is the policy."""


def instance_environment(
    agent: str, program: str, path: str | None, columns: Mapping[str, str], max_turns: int
) -> Environment:
    """The environment of some rows; see `load_environment`."""
    found = open_rows(path, VERIFIED, package="swe-env", columns=columns, names=swe_bench.COLUMNS)
    base = swe_bench.InstanceEpisode if agent == "tools" else MiniSweAgentInstance
    tools = sandbox_tools("bash", "view_file", "write_file", "edit_file")
    tools.append(Tool("run_tests", swe_bench.run_tests))
    return swe_bench.InstanceEnvironment(
        tasks=task_sets(found, swe_bench.read_instance),
        rewards=[solved, repaired],
        episode=type(base.__name__, (base,), {"command": program}),
        tools=tools if agent == "tools" else [],
        max_turns=max_turns,
        spec=swe_bench.SPEC,
        backend="docker",
        oracle=lambda task: script_of(agent, swe_bench.resolving_command(task)),
    )
