"""Run pip or uv so that hub packages come from checked files and never by name from an index."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from strop.errors import InstallError
from strop.hub.installing.target import Target

InstallerName = Literal["pip", "uv"]
_SDK_NAME = "strop"
_SHOWN_LINE_COUNT = 15
_CONFLICT_HEADING = "The conflict is caused by:"


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A wheel on this machine that was checked against its digest."""

    name: str
    """The distribution's, in normal form."""
    path: Path


@dataclass(frozen=True, slots=True)
class Installer:
    """One way to install into one interpreter."""

    name: InstallerName
    command: tuple[str, ...]
    """Everything before ``install`` or ``uninstall``."""
    target_options: tuple[str, ...] = ()
    """What goes after it."""

    def install(
        self, wheels: Sequence[WheelFile], *, reinstall: frozenset[str], pins: Sequence[str]
    ) -> None:
        """Install `wheels` from their files and whatever else they need from the index.

        Args:
            wheels: All hub packages that take part, so that none is looked up by name.
            reinstall: Names of those whose bytes differ although the version does not.
            pins: Requirements that hold what is installed at its version.

        Raises:
            InstallError: the installer failed; nothing says that it changed nothing.
        """
        paths = [str(wheel.path) for wheel in wheels]
        with tempfile.TemporaryDirectory(prefix="strop-install-") as folder:
            pin_file = Path(folder) / "installed.txt"
            pin_file.write_text("\n".join(pins) + "\n", encoding="utf-8")
            options = ["--constraint", str(pin_file)]
            if self.name == "uv":
                options += self._uv_options(wheels, reinstall, Path(folder))
            self._run("install", [*options, *paths])
        again = [str(wheel.path) for wheel in wheels if wheel.name in reinstall]
        if again and self.name == "pip":
            # pip knows --force-reinstall only for everything at once, dependencies included.
            self._run("install", ["--force-reinstall", "--no-deps", "--no-index", *again])

    def uninstall(self, names: Sequence[str]) -> None:
        """Remove distributions by name.

        Raises:
            InstallError: the installer failed.
        """
        self._run("uninstall", [*(["--yes"] if self.name == "pip" else []), *names])

    def _uv_options(
        self, wheels: Sequence[WheelFile], reinstall: frozenset[str], folder: Path
    ) -> list[str]:
        options = [f"--reinstall-package={name}" for name in sorted(reinstall)]
        if all(wheel.name != _SDK_NAME for wheel in wheels):
            # Where the target's own `strop` stays, uv would still ask the index for it; an
            # override that holds nowhere takes the requirement away.
            override = folder / "override.txt"
            override.write_text(f"{_SDK_NAME} ; python_version < '0'\n", encoding="utf-8")
            options += ["--override", str(override)]
        return options

    def _run(self, verb: str, arguments: Sequence[str]) -> None:
        command = [*self.command, verb, *self.target_options, *arguments]
        finished = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if finished.returncode != 0:
            raise InstallError(
                f"`{self.name} {verb}` failed (exit {finished.returncode}):\n"
                f"{_conflict(finished.stdout)}{_tail(finished.stderr or finished.stdout)}"
            )


def choose_installer(target: Target, wanted: InstallerName | None = None) -> Installer:
    """The installer that was asked for; otherwise pip where there is one, otherwise uv.

    Raises:
        InstallError: the one that was asked for, or any, is not to be found.
    """
    candidates = {"pip": _pip, "uv": _uv}
    for name in [wanted] if wanted else ["pip", "uv"]:
        if (found := candidates[name](target)) is not None:
            return found
    missing = wanted or "neither pip nor uv"
    raise InstallError(
        f"To install into {target.python}, {missing} was not found. "
        f"Install pip there (`{target.python} -m ensurepip`), or uv."
    )


def _pip(target: Target) -> Installer | None:
    options = ("--disable-pip-version-check", "--no-input")
    if target.has_pip:
        return Installer("pip", (str(target.python), "-m", "pip", *options))
    if importlib.util.find_spec("pip") is None:
        return None
    own_pip = (sys.executable, "-m", "pip", *options, "--python", str(target.python))
    return Installer("pip", own_pip)


def _uv(target: Target) -> Installer | None:
    options = ("--python", str(target.python))
    if (found := shutil.which("uv")) is not None:
        return Installer("uv", (found, "pip"), options)
    if importlib.util.find_spec("uv") is not None:
        return Installer("uv", (sys.executable, "-m", "uv", "pip"), options)
    return None


def _conflict(output: str) -> str:
    """Who wants what, which pip tells on its standard output and not with the error."""
    _, found, rest = output.partition(_CONFLICT_HEADING)
    causes, _, _ = rest.partition("\n\n")
    return f"{_CONFLICT_HEADING}{causes}\n" if found else ""


def _tail(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if not line.startswith("[notice]")]
    return "\n".join(lines[-_SHOWN_LINE_COUNT:])
