"""Real packages, with faults that their own tests find; each built once and kept."""

from collections.abc import Mapping
from pathlib import Path

from strop.config import cache_folder
from strop.hub.download import sha256_of
from strop.hub.sdist import check_sdist, read_sdist
from strop.sandbox import Backend
from strop.sandboxed import package as own
from strop.sandboxed.faults import Fault
from strop.sandboxed.package_faults import kept_faults


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
        self.tests, self.faults = kept_faults(self.package, kept, most=fault_count, seed=seed)

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
        return await own.failing_tests(backend, self.package, sources, self.tests)
