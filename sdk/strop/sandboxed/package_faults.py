"""Faults of a package that its own tests find, kept in a file once found (step: author)."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from strop.errors import SettingsError
from strop.sandbox.choose import open_backend
from strop.sandboxed.faults import Fault
from strop.sandboxed.package import SourcePackage, find_faults, passing_tests


def kept_faults(
    package: SourcePackage, kept: Path, *, most: int, seed: int
) -> tuple[list[str], list[Fault]]:
    """The tests of a package that pass, and faults because of which some fail.

    Args:
        package: Whose.
        kept: A file, read where it is there, and written where it is not.
        most: Faults, as for `find_faults`.
        seed: Of the order in which changes are tried.

    Raises:
        SettingsError: Its tests fail, or find no fault.
        SandboxError: No sandbox can be opened.
    """
    if not kept.exists():
        with ThreadPoolExecutor(1) as thread:  # whoever loads may be inside of a loop
            record = thread.submit(asyncio.run, _find(package, most, seed)).result()
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(record), encoding="utf-8")
    record = json.loads(kept.read_text(encoding="utf-8"))
    return record["tests"], [Fault(**fault) for fault in record["faults"]]


async def _find(package: SourcePackage, most: int, seed: int) -> dict[str, Any]:
    async with await open_backend() as backend:
        tests = await passing_tests(backend, package)
        faults = await find_faults(backend, package, tests, most=most, seed=seed)
    if not faults:
        raise SettingsError(f"The tests of {package.name} find no fault. Name another package.")
    return {"tests": tests, "faults": [asdict(fault) for fault in faults]}
