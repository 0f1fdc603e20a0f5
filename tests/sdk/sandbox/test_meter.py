"""What processes use is measured, and they are all ended, whatever they have done to hide."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.sandbox.wire import STDOUT
from strop.sandbox.zygote import meter
from strop.sandbox.zygote.watch import Output

MIB = 1 << 20
_BUSY = (
    "import time\nwhile time.process_time() < 0.2: pass\nprint('up', flush=True)\ntime.sleep(60)"
)
_LARGE = f"kept = b'x' * {64 * MIB}\nimport time\nprint('up', flush=True)\ntime.sleep(60)"
_TREE = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        time.sleep(60)
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []
    yield children
    for child in children:
        meter.kill_below(child.pid)
        child.kill()
        child.communicate()


def _start(children: list[subprocess.Popen[bytes]], code: str) -> int:
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE)
    children.append(child)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    return child.pid


def test_memory_and_time_of_a_process_are_measured(started: list[subprocess.Popen[bytes]]) -> None:
    busy, large = _start(started, _BUSY), _start(started, _LARGE)

    assert 0.15 <= meter.measure([busy], MIB).cpu_s <= 5
    assert 64 * MIB <= meter.measure([large], 1 << 40).memory_bytes <= 128 * MIB
    assert 64 * MIB <= meter.measure([large], MIB).memory_bytes <= 100 * MIB


def test_shared_pages_count_once_where_it_matters(started: list[subprocess.Popen[bytes]]) -> None:
    fork = f"kept = b'x' * {64 * MIB}\nimport os, time\nfor _ in range(3):\n    if not os.fork():\n"
    fork += "        time.sleep(60)\nprint('up', flush=True)\ntime.sleep(60)"
    root = _start(started, fork)
    pids = [root, *meter.pids_below(root)]

    assert len(pids) == 4
    assert meter.measure(pids, 1 << 40).memory_bytes >= 4 * 64 * MIB
    assert meter.measure(pids, MIB).memory_bytes <= 2 * 64 * MIB


Look = dict[tuple[int, int], tuple[int, int]]
SECOND = os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("looks", "lost_s"),
    [
        # Each process's ticks in all, and those of children that it has waited for.
        pytest.param([({1: (9, 0), 2: (SECOND, 0)}, 0), ({1: (9, 0)}, 0)], 1, id="unwaited"),
        pytest.param(
            [({1: (9, 0), 2: (SECOND, 0)}, 0), ({1: (9 + SECOND, SECOND)}, 0)], 0, id="waited"
        ),
        pytest.param(
            [({1: (9, 0), 2: (SECOND, 0)}, 0), ({1: (9, 0)}, 0), ({1: (9 + SECOND, SECOND)}, 0)],
            0,
            id="waited for while it was looked",
        ),
        pytest.param([({1: (9, 0), 2: (SECOND, 0)}, 0), ({1: (9, 0)}, 1)], 0, id="collected here"),
        pytest.param(
            [({1: (9, 0), 2: (SECOND, 0)}, 0), ({1: (9, 0)}, 0), ({1: (9, 0), 2: (SECOND, 0)}, 0)],
            0,
            id="overlooked once",
        ),
        pytest.param(
            [({1: (9, 0), 2: (SECOND, 0), 3: (SECOND, 0)}, 0), ({1: (9 + SECOND, SECOND)}, 0)],
            1,
            id="one of two",
        ),
        pytest.param(
            [({1: (9, 0), 2: (SECOND, 0)}, 0), ({1: (9, 0), 3: (SECOND, 0)}, 0), ({1: (9, 0)}, 0)],
            2,
            id="one after the other",
        ),
    ],
)
def test_time_of_those_that_nobody_has_waited_for_is_kept(
    looks: list[tuple[dict[int, tuple[int, int]], float]], lost_s: float
) -> None:
    ledger = meter.Ledger()
    for found, collected_s in [*looks, looks[-1]]:
        told = ledger.note({(pid, 7): ticks for pid, ticks in found.items()}, collected_s)

    assert told == lost_s


def test_a_number_that_is_given_again_is_another_process() -> None:
    ledger = meter.Ledger()
    looks: list[Look] = [{(2, 7): (SECOND, 0)}, {(2, 8): (0, 0)}, {(2, 8): (0, 0)}]

    assert [ledger.note(look, 0.0) for look in looks] == [0, 0, 1]


def test_processes_that_are_gone_use_nothing() -> None:
    child = subprocess.Popen(["true"])
    child.wait()

    assert meter.measure([child.pid, 2**22 + 1], 0) == meter.Usage(0, 0.0)
    assert meter.pids_below(child.pid) == []


def test_a_whole_tree_is_found_and_killed(started: list[subprocess.Popen[bytes]]) -> None:
    root = _start(started, _TREE)
    end_at = time.monotonic() + 120
    while len(pids := meter.pids_below(root)) < 6 and time.monotonic() < end_at:
        time.sleep(0.01)
    # Orphans go to whoever reaps them, so the root must die last.
    assert len(pids) == 6
    for pid in reversed(pids):
        os.kill(pid, signal.SIGKILL)
    end_at = time.monotonic() + 120
    while any(not meter._is_dead(pid) for pid in pids) and time.monotonic() < end_at:
        time.sleep(0.01)

    assert all(meter._is_dead(pid) for pid in pids)


def test_those_who_are_spared_live_on(started: list[subprocess.Popen[bytes]]) -> None:
    root = _start(started, "import os, time\nfor _ in range(2):\n    if not os.fork():\n"
                  "        time.sleep(60)\nprint('up', flush=True)\ntime.sleep(60)")  # fmt: skip
    spared, other = meter.pids_below(root)

    assert meter.kill_below(root, frozenset([spared]))
    assert meter._is_dead(other)
    assert not meter._is_dead(spared)


def test_threads_are_counted(started: list[subprocess.Popen[bytes]]) -> None:
    code = "import threading, time\nfor _ in range(40):\n    threading.Thread(target=time.sleep, "
    code += "args=[60], daemon=True).start()\nprint('up', flush=True)\ntime.sleep(60)"
    child = _start(started, code)

    assert meter.measure([child], 1 << 40).thread_count == 41
    # Whose else there are is not known here.
    assert meter.count_all_threads() >= 41


@given(st.lists(st.binary(max_size=20), max_size=10), st.integers(0, 60))
def test_the_first_bytes_of_an_output_are_kept_and_all_are_counted(
    chunks: list[bytes], cap: int
) -> None:
    output = Output(STDOUT)
    kept = b"".join(output.take(chunk, cap) for chunk in chunks)
    whole = b"".join(chunks)

    assert kept == whole[:cap]
    assert output.count == len(whole)
