"""A Python package as its source distribution has it, judged by its own tests (step: author)."""

from __future__ import annotations

import ast
import asyncio
import random
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import PurePosixPath

from strop.errors import SettingsError
from strop.sandbox.archive import pack_files
from strop.sandbox.base import MEBIBYTE, Limits, Profile, SandboxSpec
from strop.sandbox.client import Backend
from strop.sandbox.repository import TestReport, open_repository
from strop.sandboxed.faults import Fault, possible_faults

TEST_COMMAND = ("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=")
"""Options of the package's own may need plugins that are not there."""
NEVER_RAN = "it does not run any more"
FORGED = "a test that cannot pass did: the code has changed how tests are judged"
_LIMITS = Limits(
    wall_s=60.0,
    cpu_s=20.0,
    memory_bytes=1024 * MEBIBYTE,
    disk_bytes=256 * MEBIBYTE,
    pid_count=128,
)
_RUNNER = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_TESTS = re.compile(r"(^|/)(tests?/|test_[^/]*$|[^/]*_test\.py$|conftest\.py$)")
_LONGEST_MESSAGE_CHARS = 300


@dataclass(frozen=True)
class SourcePackage:
    """Files of a source distribution; nothing of it ever runs outside of a sandbox."""

    name: str
    """In the form of PEP 503."""
    files: Mapping[str, bytes]

    @cached_property
    def modules(self) -> list[str]:
        """What is imported: what its metadata lists, else its name."""
        listed = [
            content.decode(errors="replace").split()
            for path, content in self.files.items()
            if path.endswith("egg-info/top_level.txt")
        ]
        return sorted({self.name.replace("-", "_"), *(name for names in listed for name in names)})

    @cached_property
    def sources(self) -> dict[str, str]:
        """The modules that are imported, tests apart; what is no UTF-8 is left out."""
        found = {}
        for path, content in self.files.items():
            top = path.removeprefix("src/").split("/")[0].removesuffix(".py")
            if path.endswith(".py") and top in self.modules and not _TESTS.search(path):
                try:
                    found[path] = content.decode()
                except UnicodeDecodeError:
                    continue
        return found

    @cached_property
    def others(self) -> dict[str, bytes]:
        """The files beside the sources, with metadata as an installed package has it."""
        metadata = self.files.get("PKG-INFO", b"")
        rest = {path: file for path, file in self.files.items() if path not in self.sources}
        return {f"{self.name.replace('-', '_')}.dist-info/METADATA": metadata, **rest}

    def faulty(self, fault: Fault) -> dict[str, bytes] | None:
        """The files with a fault, and without the tests that fail because of it.

        None where such a test cannot be taken out, such as one that is inherited.
        """
        files = {path: text.encode() for path, text in self.sources.items()}
        original = files[fault.path]
        files[fault.path] = fault.applied(self.sources[fault.path]).encode()
        # Some distributions hold a module twice.
        files |= {path: file for path, file in self.others.items() if file != original}
        hidden = {name_of(test) for test in fault.failing}
        for path in {test.partition("::")[0] for test in hidden}:
            names = [t.split("::")[1:] for t in hidden if t.partition("::")[0] == path]
            text = _without(files.get(path, b""), names)
            if text is None:
                return None
            files[path] = text
        return files


def name_of(test: str) -> str:
    """A test's name without its parameters."""
    return test.partition("[")[0]


def _without(content: bytes, tests: Iterable[Sequence[str]]) -> bytes | None:
    """A module with ``pass`` in the place of some tests."""
    try:
        text = content.decode()
        tree: ast.AST = ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return None
    lines: list[str | None] = [*text.split("\n")]
    for names in tests:
        nodes = [tree]
        for name in names:
            bodies = [child for node in nodes for child in getattr(node, "body", [])]
            nodes = [child for child in bodies if getattr(child, "name", None) == name]
        if not names or not nodes:
            return None
        for node in nodes:
            _blank(lines, node)
    return "\n".join(line for line in lines if line is not None).encode()


def _blank(lines: list[str | None], node: ast.AST) -> None:
    first: int = min(each.lineno for each in [node, *getattr(node, "decorator_list", [])])
    last, indent = getattr(node, "end_lineno", first), " " * getattr(node, "col_offset", 0)
    lines[first - 1 : last] = [f"{indent}pass", *[None] * (last - first)]


def package_spec(name: str = "") -> SandboxSpec:
    """A sandbox in which tests of a package run: this environment's pytest, and nothing beside it.

    Raises:
        SettingsError: There is no pytest, or the package is a part of it.
    """
    if name in _RUNNER:
        raise SettingsError(f"{name} runs the tests, so that it cannot be repaired. Name another.")
    try:
        distributions = [distribution(each) for each in _RUNNER]
    except PackageNotFoundError as error:
        raise SettingsError(f"{error.name} is not installed. Install pytest.") from error
    paths = {
        str(each.locate_file(file.parts[0]))
        for each in distributions
        for file in each.files or []
        if _is_module(file)
    }
    roots = {str(PurePosixPath(path).parent): None for path in sorted(paths)}
    env = {"PYTHONPATH": ":".join(["src", ".", *roots]), "PYTHONDONTWRITEBYTECODE": "1"}
    profile = Profile(mounts=tuple(sorted(paths)))
    return SandboxSpec(limits=_LIMITS, profile=profile, env={**env, "PYTHONHASHSEED": "0"})


def _is_module(file: PurePosixPath) -> bool:
    """Whether an installed file is a module at the top, or lies in a package."""
    top = file.parts[0]
    return top.removesuffix(".py").isidentifier() and top != "__pycache__"


async def own_tests(
    backend: Backend,
    package: SourcePackage,
    sources: Mapping[str, bytes],
    beside: Mapping[str, bytes] | None = None,
) -> TestReport:
    """Run all of a package's tests on other sources, in a fresh sandbox.

    Args:
        backend: Where.
        package: Whose.
        sources: Its modules, by path.
        beside: More files, such as tests that the package does not have.

    Raises:
        SandboxError: It cannot be opened.
    """
    spec = package_spec(package.name)
    archive = pack_files({**sources, **package.others, **(beside or {})})
    async with await open_repository(
        backend, archive, mounts=spec.profile.mounts, env=spec.env, limits=spec.limits
    ) as repository:
        return await repository.run_tests(TEST_COMMAND)


async def passing_tests(backend: Backend, package: SourcePackage) -> list[str]:
    """The tests that pass on the package as it is, each of two times.

    Raises:
        SettingsError: It has none, or some of them fail.
    """
    sources = {path: text.encode() for path, text in package.sources.items()}
    reports = [await own_tests(backend, package, sources) for _ in range(2)]
    for report in reports:
        bad = [each for each in report.outcomes if each.status in ("failed", "error")]
        if report.problem or bad or not package.sources:
            output = (report.result.text + report.result.error_text).strip()[-800:]
            raise SettingsError(
                f"The tests of {package.name} do not pass in a sandbox, where there is pytest and "
                f"no other package, so that they judge nothing. Name another package.\n{output}"
            )
    both = [{o.id for o in report.outcomes if o.status == "passed"} for report in reports]
    if tests := sorted(test for test in both[0] & both[1] if reports[0].all_passed([test])):
        return tests
    raise SettingsError(f"{package.name} has no tests in its source distribution. Name another.")


async def failing_tests(
    backend: Backend, package: SourcePackage, sources: Mapping[str, bytes], tests: Sequence[str]
) -> dict[str, str]:
    """From those of the tests that do not pass, each exactly once, to what they say.

    Decoys run among them: they have the names of the tests, in folders of other names, and
    cannot pass. Where one does, the code in `sources` has changed the runner, and none counts.
    """
    decoys = _decoys(tests, f"m{secrets.token_hex(4)}")
    beside = {path: text.encode() for path, text in decoys.items()}
    report = await own_tests(backend, package, sources, beside)
    modules = {path for path, text in decoys.items() if text}
    of_decoys = [o for o in report.outcomes if o.id.partition("::")[0] in modules]
    if any(outcome.status != "failed" for outcome in of_decoys):
        return dict.fromkeys(tests, FORGED)
    if modules != {outcome.id.partition("::")[0] for outcome in of_decoys}:
        return dict.fromkeys(tests, NEVER_RAN)
    said = {outcome.id: _short(outcome.message) for outcome in report.outcomes}
    return {test: said.get(test, NEVER_RAN) for test in tests if report.status_of(test) != "passed"}


def _decoys(tests: Sequence[str], folder: str) -> dict[str, str]:
    """By path, tests that cannot pass, in modules of the same names in folders beside the tests'.

    A folder is a package, so that pytest takes two modules of one name.
    """
    modules: dict[PurePosixPath, dict[str, None]] = {}
    for test in tests:
        path, name = PurePosixPath(test.partition("::")[0]), name_of(test).rpartition("::")[2]
        if name.isidentifier():
            modules.setdefault(path.with_name(folder) / path.name, {})[name] = None
    texts = {
        str(path): "".join(f"def {name}():\n    raise AssertionError\n\n\n" for name in names)
        for path, names in modules.items()
    }
    return texts | {str(path.with_name("__init__.py")): "" for path in modules}


def _short(message: str) -> str:
    # Addresses differ from run to run.
    text = " ".join(re.sub(r" at 0x[0-9a-f]+", "", message).split())
    return text[:_LONGEST_MESSAGE_CHARS]


async def find_faults(
    backend: Backend, package: SourcePackage, tests: Sequence[str], *, most: int, seed: int = 0
) -> list[Fault]:
    """Faults because of which some tests fail, at most half of them, and all still run.

    Args:
        backend: Where the tests run, once for each change that is tried.
        package: Whose.
        tests: Those that pass without a fault.
        most: Faults; ten times as many changes are tried at most.
        seed: Of the order in which they are.
    """
    possible = [f for path, text in package.sources.items() for f in possible_faults(path, text)]
    random.Random(seed).shuffle(possible)  # noqa: S311 - an order, not a secret
    found: list[Fault] = []
    for first in range(0, min(len(possible), 10 * most), 4):
        tried = possible[first : first + 4]
        told = await asyncio.gather(*(_try(backend, package, fault, tests) for fault in tried))
        found += [fault for fault in told if fault is not None]
        if len(found) >= most:
            break
    return found[:most]


async def _try(
    backend: Backend, package: SourcePackage, fault: Fault, tests: Sequence[str]
) -> Fault | None:
    sources = {path: text.encode() for path, text in package.sources.items()}
    sources[fault.path] = fault.applied(package.sources[fault.path]).encode()
    failing = await failing_tests(backend, package, sources, tests)
    complete = replace(fault, failing=failing)
    is_partial = 0 < len(failing) <= len(tests) / 2 and NEVER_RAN not in failing.values()
    return complete if is_partial and package.faulty(complete) is not None else None
