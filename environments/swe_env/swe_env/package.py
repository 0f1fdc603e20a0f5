"""Real packages, with faults that their own tests find; each built once and kept."""

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from strop.config import cache_folder
from strop.errors import SettingsError
from strop.hub.download import sha256_of
from strop.hub.sdist import check_sdist, read_sdist
from strop.sandbox import Backend, open_backend
from strop.sandboxed import package as own
from strop.sandboxed.faults import Fault


class PackageLibrary:
    """A package whose tests that fail because of a fault are hidden, and all others shown."""

    command = " ".join(own.TEST_COMMAND)
    isolation = "shared"
    """Tests and code have one interpreter, as the tests of most packages need it."""

    def __init__(self, path: Path, fault_count: int, seed: int) -> None:
        self.name = check_sdist(path).name
        self.package = own.SourcePackage(self.name, read_sdist(path))
        self.sources, self.modules = self.package.sources, self.package.modules
        name = f"{sha256_of(path)}-{fault_count}-{seed}.json"
        kept = cache_folder() / "swe-env" / name
        if not kept.exists():
            with ThreadPoolExecutor(1) as thread:  # whoever loads may be inside of a loop
                record = thread.submit(asyncio.run, self._built(fault_count, seed)).result()
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(record), encoding="utf-8")
        self.record: Any = json.loads(kept.read_text(encoding="utf-8"))
        self.faults = [Fault(**fault) for fault in self.record["faults"]]

    async def _built(self, fault_count: int, seed: int) -> dict[str, Any]:
        async with await open_backend() as backend:
            tests = await own.passing_tests(backend, self.package)
            faults = await own.find_faults(
                backend, self.package, tests, most=fault_count, seed=seed
            )
        if not faults:
            raise SettingsError(f"The tests of {self.name} find no fault. Name another package.")
        return {"tests": tests, "faults": [asdict(fault) for fault in faults]}

    def is_visible(self, test: str, fault: Fault) -> bool:
        """Whether the model sees a test."""
        return own.name_of(test) not in map(own.name_of, fault.failing)

    def told(self, fault: Fault) -> list[str]:
        """What an issue tells of a fault."""
        return [f"- the test `{test}` fails: `{said}`" for test, said in fault.failing.items()]

    def shown(self, fault: Fault) -> dict[str, bytes]:
        """The package with a fault, and the tests that may be seen."""
        files = self.package.faulty(fault)
        assert files is not None
        return files

    async def failing(self, backend: Backend, sources: Mapping[str, bytes]) -> dict[str, str]:
        """From the tests that fail to what they say."""
        return await own.failing_tests(backend, self.package, sources, self.record["tests"])
