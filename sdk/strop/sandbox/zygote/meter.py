"""What a sandbox's processes use together, and how to end them all."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from strop.sandbox.zygote import landlock, linux

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_KILL_S = 10.0
UNBOUNDED = 1 << 60
"""More than there can be."""
_FEW = 8
"""So many are killed one by one; more are stopped first, see `kill_listed`."""
_reaper = 0
"""The process whose signals reach none but those that it has started; not the forks of it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a set of processes uses at one moment."""

    memory_bytes: int
    cpu_s: float
    """Of living ones, and of those dead that a living one has waited for; see `Ledger`."""
    thread_count: int = 0
    """Of all together; each process has at least one."""


def pids_below(root: int | None, most: int = UNBOUNDED) -> list[int]:
    """List the processes of this namespace but the first, or all descendants of `root`.

    Args:
        root: None where this process is the first of its namespace; nothing escapes that list.
        most: Below a `root`, look no further once there are more than these.
    """
    if root is None:
        me = os.getpid()
        return [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) != me]
    found: list[int] = []
    waiting = [root]
    while waiting and len(found) <= most:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """List a process's own children, of whichever of its threads."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += [int(word) for word in _read(f"/proc/{pid}/task/{thread}/children").split()]
    return found


class Ledger:
    """Keeps the processor time that the kernel forgets: of processes that nobody has waited for.

    It is seen from look to look, so that what lived shorter than that is missed. Time never counts
    twice: what ended between two looks is taken for lost only if, by the second look after that,
    nobody has been credited with it.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], tuple[int, int]] = {}
        self._ended: dict[tuple[int, int], int] = {}
        self._collected = 0
        self._doubtful = 0
        self._lost = 0

    def note(self, found: dict[tuple[int, int], tuple[int, int]], collected_s: float) -> float:
        """Take in a look at all processes, and give the seconds that are lost so far.

        Args:
            found: Number and start of each, and its ticks: in all, and those of children that it
                has waited for.
            collected_s: Of children that this process has waited for.
        """
        collected = int(collected_s * _TICKS)
        before, self._before = self._before, found
        credited = collected - self._collected
        self._collected = collected
        # An orphan that is adopted while it is looked for may be overlooked once.
        overlooked = sum(total for key, total in self._ended.items() if key in found)
        self._ended = {key: total for key, (total, _) in before.items() if key not in found}
        credited += sum(
            found[key][1] - waited for key, (_, waited) in before.items() if key in found
        )
        ended = sum(self._ended.values())
        self._lost += max(0, self._doubtful - overlooked - max(0, credited - ended))
        self._doubtful = max(0, ended - credited)
        return self._lost / _TICKS


def measure(
    pids: list[int],
    limit_bytes: int,
    ledger: Ledger | None = None,
    collected_s: float = 0.0,
) -> Usage:
    """Add up what `pids` use.

    Resident pages are counted first, which is quick and too much: pages that processes share
    count once for each. Only where that sum passes `limit_bytes` are shared pages divided.

    Args:
        pids: Which processes.
        limit_bytes: From where on memory is counted exactly.
        ledger: Adds the time of those that have ended, as far as it was seen.
        collected_s: Processor time of children that this process has waited for; it counts.
    """
    pages, threads = 0, 0
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for pid in pids:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) > 21:
            user, system, *waited = map(int, fields[11:15])
            found[pid, int(fields[19])] = user + system + sum(waited), sum(waited)
            pages += int(fields[21])
            threads += max(1, int(fields[17]))
    memory = pages * _PAGE_BYTES
    if memory > limit_bytes:
        memory = sum(_own_bytes(pid) for pid in pids)
    cpu_s = sum(total for total, _ in found.values()) / _TICKS + collected_s
    if ledger is not None:
        cpu_s += ledger.note(found, collected_s)
    return Usage(memory, cpu_s, threads)


def _own_bytes(pid: int) -> int:
    """Give a process's share of memory that is no file's: private, and shared pages divided."""
    total = 0
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith((b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")):
            total += int(line.split()[1]) * 1024
    if total:
        return total
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def count_all_threads() -> int:
    """Count the threads of the whole machine, whoever's they are."""
    fields = _read("/proc/loadavg").split()
    return int(fields[3].partition(b"/")[2]) if len(fields) > 3 else 0


def become_reaper() -> None:
    """Adopt what is orphaned below this process, and make ending all of it one single step.

    Where the kernel can keep signals inside, one that is sent to everybody reaches exactly what
    this process has started, at one moment: nothing forks its way past it.
    """
    global _reaper
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    if landlock.keep_signals_inside():
        _reaper = os.getpid()


def _signal_all(number: int) -> None:
    """Signal all below this process at once, if it is such that no other is reached."""
    if _reaper != os.getpid():
        return
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        with suppress(OSError):
            os.kill(-1, number)
    except OSError:
        return


def kill_below(root: int | None, spared: frozenset[int] = frozenset()) -> bool:
    """Kill every process that `pids_below` lists, again and again until none is left.

    Args:
        root: As for `pids_below`; this process must be the reaper of what is orphaned there.
        spared: Processes that are left alone.

    Returns:
        Whether none is left.
    """
    if root == os.getpid():
        _signal_all(signal.SIGSTOP if spared else signal.SIGKILL)
    try:
        return kill_listed(lambda: [pid for pid in pids_below(root) if pid not in spared])
    finally:
        _signal(spared, signal.SIGCONT)


def kill_listed(list_pids: Callable[[], list[int]]) -> bool:
    """Kill every process that `list_pids` gives, again and again until it gives none that lives.

    Of many, all are stopped before one is killed: among processes that fork as fast as they can,
    each that dies makes room for the next.

    Returns:
        Whether none is left.
    """
    end = time.monotonic() + _KILL_S
    while time.monotonic() < end:
        rest = [pid for pid in list_pids() if not _is_dead(pid)]
        if not rest:
            return True
        if len(rest) > _FEW:
            rest = _stop(list_pids, end)
        _signal(rest, signal.SIGKILL)
        time.sleep(0.0005)
    return False


def _stop(list_pids: Callable[[], list[int]], end: float) -> list[int]:
    """Stop all until a list has no new one; give that list."""
    stopped: set[int] = set()
    pids = list_pids()
    while (new := [pid for pid in pids if pid not in stopped]) and time.monotonic() < end:
        _signal(new, signal.SIGSTOP)
        stopped.update(new)
        pids = list_pids()
    return pids


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def _is_dead(pid: int) -> bool:
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2][1:2] in (b"", b"Z", b"X")


@contextmanager
def burying_orphans(spared: frozenset[int]) -> Iterator[None]:
    """Collect dead children but `spared` as they die: until then the kernel counts them."""
    signal.signal(signal.SIGCHLD, lambda *_: reap_orphans(spared))
    try:
        reap_orphans(spared)
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def reap_orphans(spared: frozenset[int]) -> None:
    """Collect dead children; the exit status of `spared` is left for others to read."""
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, look)) is not None:
            if dead.si_pid in spared:
                # It may hide others.
                break
            os.waitpid(dead.si_pid, os.WNOHANG)
        else:
            return
    for pid in children(os.getpid()):
        if pid not in spared and _is_dead(pid):
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
