"""Keeps what modules want to run at forks out of the zygote's own forks.

Such hooks mend locks that other threads hold, of which a zygote has none, and seed random numbers
anew, which is done apart. They cost more than the fork itself.
"""

import os
from typing import Any

_register = os.register_at_fork
_collected: list[dict[str, Any]] = []


def defer() -> None:
    """From now on, collect hooks instead of registering them."""
    os.register_at_fork = lambda **hooks: _collected.append(hooks)


def stop_deferring() -> None:
    """Let modules register again."""
    os.register_at_fork = _register


def register_collected() -> None:
    """Register all that were collected, for the forks of the code that runs now."""
    for hooks in _collected:
        _register(**hooks)
