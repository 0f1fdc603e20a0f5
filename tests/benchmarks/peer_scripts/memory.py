"""What the scripts tell of memory, and a gate that opens when all rollouts are in flight."""

import asyncio
import resource
import sys

IS_TOGETHER = sys.argv[3:4] == ["together"]
"""Whether no call is answered before all of them wait."""


class Gate:
    """Passed by nobody before as many wait as are wanted."""

    def __init__(self, wanted):
        self._missing = wanted if IS_TOGETHER else 0
        self._is_open = asyncio.Event()

    async def wait(self):
        """Wait for the others."""
        self._missing -= 1
        if self._missing <= 0:
            self._is_open.set()
        await self._is_open.wait()


def allow_connections():
    """Let every rollout in flight have its own."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def peak_rss_kb():
    """The largest resident set that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
