"""Named points at which a test can kill the hub, to prove that nothing half-done is left.

With the variable ``STROP_HUB_FAILPOINT`` set to one of the names, the process sends itself SIGKILL
when it gets there. It is for tests: an operator never sets it.
"""

import os
import signal

VARIABLE = "STROP_HUB_FAILPOINT"

PUBLISH = (
    "publish.receive",
    "publish.receive-end",
    "publish.validate",
    "publish.store",
    "publish.store-wheel",
    "publish.store-metadata",
    "publish.store-source",
    "publish.store-readme",
    "publish.write",
    "publish.write-version",
    "publish.write-files",
    "publish.commit",
    "publish.announce",
)
"""In the order in which a push passes them; each stands right before the step it is named after."""

PURGE = ("purge.log", "purge.erase", "purge.finish")
"""As `PUBLISH`; all of them after the commit that takes the rows away."""


def reach(name: str) -> None:
    """Die here when the operator of a test asked for it."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
