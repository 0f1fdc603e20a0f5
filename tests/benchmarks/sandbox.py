"""An isolated ``print(1)`` against a bare Python: ``python -m tests.benchmarks.sandbox [--json]``.

Both are run in turns in the same minute, so that whatever else the machine does slows both; only
ratios of times are given. The bare Python is ``python -I -c`` of a virtual environment made for
this. With ``--user`` the backend itself runs without privileges, in a user namespace. ``cpu_ms``
and ``bare_cpu_ms`` are the processor time of one run, over all processes that take part: they hold
on a busy machine, too. Kernel threads, which bury namespaces, are not in it.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from strop.sandbox import Backend, Profile
from strop.sandbox.backends.local import LocalTransport
from strop.sandbox.zygote import meter

Once = Callable[[], Awaitable[None]]
CODE = "print(1)"
CASES = 200
_NOBODY = 65534
_TICKS = os.sysconf("SC_CLK_TCK")
_REST_S = 1.0
"""How long the sandboxes that come next are still prepared after a run."""


def _make_environment(folder: Path, python: str) -> str:
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    return str(folder / "bin" / "python")


async def _bare(python: str) -> None:
    process = await asyncio.create_subprocess_exec(python, "-I", "-c", CODE, stdout=subprocess.PIPE)
    if (await process.communicate())[0] != b"1\n":
        raise SystemExit("the bare Python wrote something else")


async def _isolated(backend: Backend) -> None:
    if (await backend.run(CODE)).stdout != b"1\n":
        raise SystemExit("the sandbox wrote something else")


async def _latencies(pair: tuple[Once, Once], count: int) -> tuple[list[float], list[float]]:
    """Seconds of each run, one kind after the other in turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        for kind, once in enumerate(pair):
            began = time.perf_counter()
            await once()
            taken[kind].append(time.perf_counter() - began)
    return taken


async def _throughput(once: Once, count: int, concurrency: int) -> float:
    """Runs a second."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await once()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return count / (time.perf_counter() - began)


def _used_s(stubs: list[int]) -> float:
    """Processor seconds of this process, its dead children, and all processes of the backend."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ticks = 0
    for stub in stubs:
        for pid in (stub, *meter.pids_below(stub)):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # Of itself, and of the children that it has waited for.
            ticks += sum(int(field) for field in fields[11:15])
    return sum(used.ru_utime + used.ru_stime for used in own) + ticks / _TICKS


async def _cpu_ms(once: Once, count: int, stubs: list[int]) -> float:
    """Processor time of each of `count` runs, with the making of what is to replace it."""
    await asyncio.sleep(_REST_S)
    before = _used_s(stubs)
    for _ in range(count):
        await once()
    await asyncio.sleep(_REST_S)
    return (_used_s(stubs) - before) / count * 1000


async def _measure(backend: Backend, python: str, count: int) -> dict[str, float]:
    def bare() -> Awaitable[None]:
        return _bare(python)

    def isolated() -> Awaitable[None]:
        return _isolated(backend)

    await _latencies((bare, isolated), 10)
    times, isolated_times = await _latencies((bare, isolated), count)
    rates = []
    for _ in range(3):
        base = await _throughput(bare, count, 8)
        rates.append(await _throughput(isolated, count, 8) / base)
    assert isinstance(backend.transport, LocalTransport)
    stubs = backend.transport.stub_pids
    bare_cpu_ms, cpu_ms = [await _cpu_ms(once, count, stubs) for once in (bare, isolated)]
    began = time.perf_counter()
    await backend.run_many("print(int(input()) + 1)", [b"1"] * CASES)
    case_ms = (time.perf_counter() - began) / CASES * 1000
    bare_p99, own_p99 = (statistics.quantiles(t, n=100)[98] for t in (times, isolated_times))
    return {
        "p50_ratio": round(statistics.median(isolated_times) / statistics.median(times), 3),
        "p99_ratio": round(own_p99 / bare_p99, 3),
        "throughput_ratio": round(statistics.median(rates), 3),
        "case_ms": round(case_ms, 3),
        "cpu_ms": round(cpu_ms, 3),
        "bare_cpu_ms": round(bare_cpu_ms, 3),
    }


async def _run(count: int, *, without_privileges: bool) -> dict[str, float]:
    is_root = os.geteuid() == 0
    if is_root and not without_privileges:
        python, transport = sys.executable, LocalTransport("zygote-root")
    else:
        python = "/usr/bin/python3" if is_root else sys.executable
        user = _NOBODY if is_root else None
        transport = LocalTransport("zygote-userns", python=python if is_root else None, user=user)
    with tempfile.TemporaryDirectory() as folder:
        environment = _make_environment(Path(folder) / "venv", python)
        async with Backend(transport) as backend:
            await transport.warm_up(Profile())
            return await _measure(backend, environment, count)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--count", type=int, default=200, help="runs of each kind")
    parser.add_argument("--user", action="store_true", help="without privileges")
    arguments = parser.parse_args()
    figures = asyncio.run(_run(arguments.count, without_privileges=arguments.user))
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:>18}  {value}")


if __name__ == "__main__":
    main()
