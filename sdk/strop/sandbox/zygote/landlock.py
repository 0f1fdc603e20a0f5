"""Landlock: confine a process to paths, without a namespace and without privileges."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from strop.sandbox.zygote import linux

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 0x1, 0x2, 0x4, 0x8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_TCP, _SCOPES, _SIGNALS = 0x3, 0x3, 0x2

LEAST_VERSION = 6
"""The first with scopes, which keep signals and abstract sockets inside the sandbox."""


def version() -> int:
    """Give the kernel's version of Landlock; 0 where it has none."""
    try:
        return linux.syscall("landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    except OSError:
        return 0


def confine(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Confine this process for good: files as named, no TCP, signals only to its like.

    Paths that do not exist are passed over.

    Raises:
        OSError: The kernel's Landlock is missing or too old.
    """
    found = version()
    if found < LEAST_VERSION:
        raise OSError(95, f"landlock: version {found}, at least {LEAST_VERSION} is needed")
    rights = _FIRST_RIGHTS | _REFER | _TRUNCATE | _IOCTL
    attributes = struct.pack("QQQ", rights, _TCP, _SCOPES)
    size = ctypes.c_size_t(len(attributes))
    ruleset = linux.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ)
        for path in writable:
            _allow(ruleset, path, rights)
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        linux.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def keep_signals_inside() -> bool:
    """Let this process, and all that it starts, send signals to none but those that it starts.

    Returns:
        Whether the kernel can do that.
    """
    if version() < LEAST_VERSION:
        return False
    attributes = struct.pack("QQQ", 0, 0, _SIGNALS)
    size = ctypes.c_size_t(len(attributes))
    try:
        ruleset = linux.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
        try:
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            linux.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
        finally:
            os.close(ruleset)
    except OSError:
        return False
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_A_FILE
        rule = struct.pack("=QI", rights, fd)
        linux.syscall("landlock_add_rule", _ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)
