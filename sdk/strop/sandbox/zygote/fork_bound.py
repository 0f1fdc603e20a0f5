"""The kernel's bound on processes where it counts all that a user has, and not a run's alone."""

import resource
from contextlib import suppress

from strop.sandbox.zygote import meter

_ROOM = 512
_LEAST_ROOM = 256
_MOST_ROOM = 1 << 14


class ForkBound:
    """A last stop for forks, kept above what others of the user have.

    The watch ends a run that has too many processes; until it has looked, this stops what forks as
    fast as it can. It may neither be lower than what others have, in whatever namespace, nor than
    what they start while the run lives: forks would fail that nothing forbids.
    """

    def __init__(self, most: int) -> None:
        """Leave a run `most` processes, and others room."""
        self._most = most
        others = meter.count_all_threads()
        self._bound, self._last = others + most + _ROOM, others + most + _MOST_ROOM

    @property
    def words(self) -> dict[str, int]:
        """What the run's first process sets: the bound, and how far it can be raised."""
        return {"pid_count": self._bound, "pid_last": self._last}

    def follow(self, pids: list[int], own_count: int) -> None:
        """Raise the run's bound when others have grown; `own_count` threads are the run's."""
        if own_count > self._most:
            return
        wanted = meter.count_all_threads() - own_count + self._most
        if wanted + _LEAST_ROOM <= self._bound:
            return
        self._bound = min(wanted + _ROOM, self._last)
        for pid in pids:
            with suppress(OSError, ValueError):
                resource.prlimit(pid, resource.RLIMIT_NPROC, (self._bound, self._last))
