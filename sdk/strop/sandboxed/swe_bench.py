"""Rows of SWE-bench: a repository in an image, an issue, and tests by name (step: author).

Source: SWE-bench, arXiv:2310.06770, and the logs that its test commands write.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from shlex import quote
from typing import Any, ClassVar

from strop.errors import SandboxError, SettingsError, SpoiledWorkspaceError, StropError
from strop.rows import Row
from strop.sandbox.base import MEBIBYTE, Limits, SandboxSpec
from strop.sandbox.client import Backend
from strop.sandbox.repository import ROOT, Repository
from strop.sandbox.room import Sandbox
from strop.sandboxed.environment import SandboxEnvironment
from strop.sandboxed.episode import SandboxEpisode
from strop.sandboxed.protected import is_protected
from strop.sandboxed.tools import shortened
from strop.task import Task
from strop.trajectory import Trajectory

COLUMNS = (
    *("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch"),
    *("FAIL_TO_PASS", "PASS_TO_PASS", "image", "test_command"),
)
"""What is read of a row; the last two may be missing."""
SPEC = SandboxSpec(
    limits=Limits(
        wall_s=1800.0,
        cpu_s=1800.0,
        memory_bytes=8192 * MEBIBYTE,
        disk_bytes=4096 * MEBIBYTE,
        file_bytes=512 * MEBIBYTE,
        output_bytes=16 * MEBIBYTE,
        pid_count=256,
    ),
    env={
        # The image's own installation leads to its own folder, which nobody may write to.
        "PYTHONPATH": f"/box/{ROOT}:/box/{ROOT}/src:/box/{ROOT}/lib",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/box",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    },
)
"""A sandbox for these: repositories of some hundred megabytes, and tests of some minutes."""

_PYTEST = "pytest --no-header -rA --tb=no -p no:cacheprovider {files}"
_COMMANDS = {
    "django/django": (
        "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 {modules}"
    ),
    "sympy/sympy": "bin/test -C --verbose {files}",
}
"""By repository, where it is not `_PYTEST`."""
_ACTIVATE = "/opt/miniconda3/bin/activate"
_DEFAULT_IMAGE = "swebench/sweb.eval.x86_64.{}:latest"
_IMAGE = re.compile(r"[a-z0-9][\w.:/-]*(@sha256:[0-9a-f]{64})?")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_DIFFED = re.compile(r"^diff --git a/(\S+) b/(\S+)$", re.MULTILINE)
_PASSED, _FAILED = "passed", "failed"
_PYTEST_LINE = re.compile(r"^(PASSED|XFAIL|FAILED|ERROR|SKIPPED|XPASS) (\S+)", re.MULTILINE)
_UNITTEST_LINE = re.compile(r"^(.+?) \.\.\. +(ok|OK|FAIL|ERROR|skipped.*|expected failure)$", re.M)
_SYMPY_LINE = re.compile(r"^(test_\w+) (ok|F|E|f|s|w)\b", re.MULTILINE)
_GOOD_WORDS = frozenset({"PASSED", "XFAIL", "ok", "OK", "expected failure", "f"})


@dataclass(frozen=True)
class Instance:
    """One row."""

    id: str
    repository: str
    """Such as ``django/django``."""
    base_commit: str
    test_patch: str
    """Changes of tests, which nobody sees who works on it."""
    patch: str
    """What resolved the issue."""
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    image: str | None
    """Where the repository is, ready to run, in `InstanceEpisode.testbed`."""
    test_command: str = _PYTEST
    """With ``{files}`` or ``{modules}`` for the tests to run."""

    @property
    def test_files(self) -> list[str]:
        """What the changes of tests touch."""
        return sorted({name for names in _DIFFED.findall(self.test_patch) for name in names})

    def command(self, files: Sequence[str]) -> str:
        """For the shell, in the repository's folder.

        Args:
            files: Tests, such as ``tests/forms/tests.py``.
        """
        modules = [
            path.removeprefix("tests/").removesuffix(".py").replace("/", ".") for path in files
        ]
        text = self.test_command
        for place, names in (("{files}", files), ("{modules}", modules)):
            text = text.replace(place, " ".join(map(quote, names)))
        return f"if [ -f {_ACTIVATE} ]; then . {_ACTIVATE} testbed; fi; {text} 2>&1"


def read_instance(row: Row) -> Task:
    """A row as a task, whose key is the instance's id.

    Raises:
        RowError: A column is missing, or is not what it should be.
    """
    name, repository = row.text("instance_id"), row.text("repo")
    tests = {column: row.texts(column) for column in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    told = {c: row.text(c) for c in ("image", "test_command") if row.get(c) is not None}
    image = told.get("image", _image_of(name))
    instance = Instance(
        id=name,
        repository=repository,
        base_commit=row.text("base_commit"),
        test_patch=row.text("test_patch"),
        patch=row.text("patch"),
        fail_to_pass=tests["FAIL_TO_PASS"],
        pass_to_pass=tests["PASS_TO_PASS"],
        image=image,
        test_command=told.get("test_command", _COMMANDS.get(repository, _PYTEST)),
    )
    if problem := next(_problems(instance), None):
        raise row.error(problem)
    metadata: Any = {"repository": repository, "image": image}
    return Task(name, row.text("problem_statement"), asdict(instance), metadata)


def _image_of(name: str) -> str:
    # Underscores in pairs are not allowed in names of images.
    return _DEFAULT_IMAGE.format(name.lower().replace("__", "_1776_"))


def _problems(instance: Instance) -> Iterator[str]:
    if not _COMMIT.fullmatch(instance.base_commit):
        yield f"base_commit is no commit: {instance.base_commit!r:.60}"
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", instance.repository):
        yield f"repo is not owner/name: {instance.repository!r:.60}"
    # A name that began with a hyphen would be an option of the engine's command.
    if instance.image is not None and not _IMAGE.fullmatch(instance.image):
        yield f"image is no name of an image: {instance.image!r:.60}"
    if not instance.fail_to_pass:
        yield "FAIL_TO_PASS is empty: nothing would show that the issue is resolved"
    if both := {*instance.fail_to_pass} & {*instance.pass_to_pass}:
        yield f"{min(both)!r:.60} is in FAIL_TO_PASS and in PASS_TO_PASS"
    if not instance.test_files:
        yield "test_patch is no change in git's form"
    if any(path.startswith("/") or ".." in path.split("/") for path in instance.test_files):
        yield "test_patch leads out of the repository"


class InstanceEpisode(SandboxEpisode):
    """The model works on a copy of the image's repository; its changes are judged in another one.

    The outcome has ``solved``, and how many of the tests that should pass do not.
    """

    testbed: ClassVar[str] = "/testbed"
    """Where an image has its repository."""
    base: str | None = None
    """The commit that changes are taken against; None before there is a copy."""

    async def setup(self) -> None:
        """Copy the repository to where the model works; nothing is resolved before it is judged."""
        reference: Any = self.task.reference
        self.instance = Instance(**reference)
        self.outcome.update(solved=False, repaired=0.0, scoring_isolation="shared")
        await super().setup()
        self.base = await copy_testbed(self.workspace.sandbox, self.testbed)

    @property
    def spec(self) -> SandboxSpec:
        """With the instance's image."""
        return replace(super().spec, image=self.instance.image)

    async def score(self, queue_s: float = 0.0) -> Trajectory:
        """Judge the changes, then score."""
        if self.base is None:
            return await super().score(queue_s)
        try:
            diff = await Repository(self.workspace.sandbox, self.base).diff()
            failing = await failing_tests(
                self.backend, self.instance, diff, self.spec, testbed=self.testbed
            )
        except SpoiledWorkspaceError as error:
            # Whoever works there did this, and has not resolved anything.
            self.outcome["spoiled"] = str(error)
        except StropError as error:
            self.fail(error)
        else:
            wanted = self.instance.fail_to_pass
            left = [test for test in failing if test in wanted]
            self.outcome.update(
                solved=not failing,
                repaired=1 - len(left) / len(wanted),
                failing_fixed=len(left),
                failing_kept=len(failing) - len(left),
            )
        return await super().score(queue_s)


async def run_tests(episode: InstanceEpisode, files: list[str]) -> str:
    """Run files of tests with the command of the repository.

    Args:
        episode: Who acts.
        files: Paths of tests, from the repository's folder.
    """
    workspace = episode.workspace
    argv = ["bash", "-c", episode.instance.command(files)]
    result = await workspace.sandbox.exec(argv, cwd=ROOT)
    return shortened(result.text, workspace.conduct.answer_chars) or f"[{result.status}]"


async def copy_testbed(sandbox: Sandbox, testbed: str) -> str:
    """Copy an image's repository to where commands run; gives the commit that it stands at.

    Raises:
        SandboxError: It has none there.
    """
    copied = await sandbox.exec(
        f"mkdir -p {ROOT} && cp -R --preserve=mode,timestamps,links {quote(testbed)}/. {ROOT} && "
        f"cd {ROOT} && git rev-parse HEAD"
    )
    if not copied.is_ok:
        told = copied.error_text.strip()[-500:] or copied.status
        raise SandboxError(f"the image has no repository in {testbed}: {told}")
    return copied.text.strip()


async def failing_tests(
    backend: Backend,
    instance: Instance,
    diff: bytes,
    spec: SandboxSpec,
    *,
    testbed: str = InstanceEpisode.testbed,
) -> list[str]:
    """Those of the instance's tests that do not pass with some changes, in a fresh sandbox.

    Changes of tests, and of what configures them, are left out.

    Raises:
        SandboxError: The sandbox cannot be started, or the tests' own changes do not apply there.
        SpoiledWorkspaceError: The changes do not apply.
    """
    async with await backend.create(replace(spec, image=instance.image)) as sandbox:
        repository = Repository(sandbox, await copy_testbed(sandbox, testbed))
        await repository.apply(diff)
        await _put_back(repository, instance.test_files)
        patched = await repository.exec(["git", "apply", "-"], stdin=instance.test_patch.encode())
        if not patched.is_ok:
            told = patched.error_text.strip()[-500:]
            raise SandboxError(f"test_patch of {instance.id} does not apply to its image: {told}")
        files = [path for path in instance.test_files if path.endswith(".py")]
        ran = await repository.exec(["bash", "-c", instance.command(files)])
        statuses = read_log(ran.text)
    wanted = [*instance.fail_to_pass, *instance.pass_to_pass]
    return [test for test in wanted if statuses.get(test) != _PASSED]


async def _put_back(repository: Repository, paths: Sequence[str]) -> None:
    listed = await repository.exec("git add --all && git diff --cached --name-only -z HEAD")
    changed = [name for name in listed.text.split("\0") if is_protected(name) or name in paths]
    if changed:
        argv = ["git", "restore", "--source=HEAD", "--staged", "--worktree", "--", *changed]
        restored = await repository.exec(argv)
        if not restored.is_ok:
            raise SandboxError(f"tests cannot be put back: {restored.error_text.strip()[-300:]}")


def read_log(text: str) -> dict[str, str]:
    """How each test ended, by the names that rows have: ``passed`` or ``failed``.

    Reads what pytest (``-rA``), unittest (``--verbosity 2``) and SymPy's own runner write. Names of
    pytest end at the first space, as they do in rows. What is told twice has to pass each time.
    """
    statuses: dict[str, str] = {}
    found = [(name, word) for word, name in _PYTEST_LINE.findall(text)]
    found += [*_UNITTEST_LINE.findall(text), *_SYMPY_LINE.findall(text)]
    for name, word in found:
        is_good = word in _GOOD_WORDS and statuses.get(name) != _FAILED
        statuses[name] = _PASSED if is_good else _FAILED
    return statuses


def resolving_command(task: Task) -> str:
    """A shell's command that does what resolved the issue, for an oracle."""
    reference: Any = task.reference
    patch = base64.b64encode(reference["patch"].encode()).decode()
    return f"base64 -d <<< {patch} | git apply -"


class InstanceEnvironment(SandboxEnvironment):
    """Needs containers, and says so where there are none."""

    async def setup(self) -> None:
        """Open the backend.

        Raises:
            SettingsError: No engine of containers answers.
        """
        try:
            await super().setup()
        except SandboxError as error:
            raise SettingsError(
                f"Rows of SWE-bench run in images of containers, and here are none: {error}. Start "
                "Docker or Podman, and pull the images that the tasks' metadata names."
            ) from error
