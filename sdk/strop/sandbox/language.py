"""How a program in each language is started."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

from strop.sandbox.base import MEBIBYTE, Limits
from strop.sandbox.wire import Kind

Language: TypeAlias = Literal["python", "python-fresh", "bash", "c", "cpp", "javascript"]
"""``python`` starts in milliseconds inside a prepared interpreter; ``python-fresh`` pays for a
new one, with nothing imported."""

_COMPILERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "c": ("main.c", "gcc", ("-O2", "-std=c17", "-lm")),
    "cpp": ("main.cpp", "g++", ("-O2", "-std=c++20")),
}
_SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "python-fresh": ("main.py", ("python3", "-s")),
    "bash": ("main.sh", ("bash",)),
    "javascript": ("main.js", ("node",)),
}
_BINARY = "main.bin"
COMPILE_LIMITS = Limits(
    wall_s=60.0,
    cpu_s=20.0,
    memory_bytes=1024 * MEBIBYTE,
    file_bytes=64 * MEBIBYTE,
    disk_bytes=128 * MEBIBYTE,
)


@dataclass(frozen=True, slots=True)
class Program:
    """Something that can be started, once its files are in the sandbox."""

    kind: Kind
    argv: tuple[str, ...] = ()
    code: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    executables: frozenset[str] = frozenset()
    reserves_much_memory: bool = False
    """Its runtime reserves address space far beyond what it uses."""

    def fit(self, limits: Limits) -> Limits:
        """Leave out the bound on address space where the runtime cannot live with it."""
        if self.reserves_much_memory and limits.address_space_bytes is None:
            return replace(limits, address_space_bytes=0)
        return limits


def interpreted(language: Language, source: bytes, argv: Sequence[str]) -> Program:
    """Give the program for a language that needs no compiler."""
    if language == "python":
        return Program("python", tuple(argv), code=source)
    name, launcher = _SCRIPTS[language]
    return Program(
        "argv",
        (*launcher, name, *argv),
        files={name: source},
        reserves_much_memory=language == "javascript",
    )


def compiler(language: Language, source: bytes) -> Program | None:
    """Give the program that compiles `source`, or None where a language needs none."""
    check(language)
    if language not in _COMPILERS:
        return None
    name, command, options = _COMPILERS[language]
    flags = [option for option in options if not option.startswith("-l")]
    libraries = [option for option in options if option.startswith("-l")]
    argv = (command, *flags, "-o", _BINARY, name, *libraries)
    return Program("argv", argv, files={name: source})


def compiled(binary: bytes, argv: Sequence[str]) -> Program:
    """Give the program that runs what a compiler has made."""
    return Program(
        "argv",
        (f"./{_BINARY}", *argv),
        files={_BINARY: binary},
        executables=frozenset([_BINARY]),
    )


def cache_key(program: Program) -> str:
    """Name what a compiler makes, by all that it is made from."""
    digest = hashlib.sha256("\0".join(program.argv).encode())
    for name, content in program.files.items():
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def binary_name() -> str:
    """Give the name of the file that a compiler writes."""
    return _BINARY


def check(language: str) -> None:
    """Refuse a language that nobody knows.

    Raises:
        ValueError: It is none of `Language`.
    """
    if language not in get_args(Language):
        known = ", ".join(get_args(Language))
        raise ValueError(f"{language!r} is no language of the sandbox. Choose one of {known}.")
