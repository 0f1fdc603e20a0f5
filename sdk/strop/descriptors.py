"""How many files this process may have open, sockets among them."""

from __future__ import annotations

import resource
from contextlib import suppress

# Endless or huge limits make programs slow that close every possible descriptor.
_WANTED_COUNT = 65_536


def allow_open_files() -> int:
    """Raise the soft limit of open files towards the hard one; it is never lowered.

    Returns:
        How many files may be open from now on.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED_COUNT
    wanted = _WANTED_COUNT if hard == resource.RLIM_INFINITY else min(hard, _WANTED_COUNT)
    if soft < wanted:
        # Some systems refuse more than a limit of their own, below the hard one.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft
