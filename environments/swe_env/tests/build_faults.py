"""Finds the faults that show, and writes them beside each library; run it when one changes.

Run as ``python environments/swe_env/tests/build_faults.py``, with this package to be imported.
"""

import asyncio
import json
from dataclasses import asdict
from typing import Any

from swe_env import NAMES
from swe_env.library import DATA, CaseLibrary

from strop.sandbox import Backend, open_backend
from strop.sandboxed.faults import Fault, possible_faults

MOST = 40
"""Faults of one library."""


async def record_of(backend: Backend, name: str) -> dict[str, Any]:
    """What belongs into a library's ``faults.json``."""
    library = CaseLibrary(name)
    [(path, source)] = library.sources.items()
    expected = await library.values(backend, {path: source.encode()})
    library.__dict__["record"] = {"expected": expected, "faults": []}
    found = []
    for fault in possible_faults(path, source):
        failing = await library.failing(backend, {path: fault.applied(source).encode()})
        if is_telling(library, failing):
            found.append(Fault(fault.path, fault.start, fault.end, fault.text, failing))
    step = max(1, len(found) / MOST)
    chosen = [found[int(index * step)] for index in range(min(MOST, len(found)))]
    return {"expected": expected, "faults": [asdict(fault) for fault in chosen]}


def is_telling(library: CaseLibrary, failing: dict[str, str]) -> bool:
    """Whether hidden and visible tests fail, and most do not, and none for want of time."""
    visible = [test for test in failing if library.is_visible(test)]
    is_slow = {"nothing", "raises TimeoutError", "raises MemoryError"} & set(failing.values())
    is_partial = len(failing) <= len(library.cases) // 2
    return bool(visible) and len(failing) > len(visible) and is_partial and not is_slow


async def main() -> None:
    """Write the records of all libraries."""
    async with await open_backend() as backend:
        for name in NAMES:
            record = await record_of(backend, name)
            text = json.dumps(record, indent=1) + "\n"
            (DATA / name / "faults.json").write_text(text, encoding="utf-8")
            print(name, len(record["faults"]), "faults")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
