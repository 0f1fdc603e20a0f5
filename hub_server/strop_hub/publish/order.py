"""A text for each version that orders as PEP 440 does when compared byte by byte.

Source: PEP 440, "Summary of permitted suffixes and relative ordering".
"""

from packaging.version import Version

_NOTHING_BEFORE = "a"
_SOMETHING = "b"
_NOTHING_AFTER = "c"
_END = "!"
"""Sorts before every letter and digit, so that a shorter list of parts comes first."""


def sort_key(version: Version) -> str:
    """The key by which a database can sort versions; equal for equal versions."""
    return "".join(
        (
            _number(version.epoch),
            _release(version.release),
            _pre(version),
            _NOTHING_BEFORE if version.post is None else _SOMETHING + _number(version.post),
            _NOTHING_AFTER if version.dev is None else _SOMETHING + _number(version.dev),
            _local(version.local),
        )
    )


def _number(value: int) -> str:
    # The count of digits first, so that 10 follows 9 however large numbers grow.
    digits = str(value)
    return f"{len(digits):03d}{digits}"


def _release(parts: tuple[int, ...]) -> str:
    significant = list(parts)
    while significant and significant[-1] == 0:
        significant.pop()
    return "".join(map(_number, significant)) + _END


def _pre(version: Version) -> str:
    if version.pre is not None:
        letter, number = version.pre
        return _SOMETHING + letter + _END + _number(number)
    is_bare_dev = version.post is None and version.dev is not None
    return _NOTHING_BEFORE if is_bare_dev else _NOTHING_AFTER


def _local(local: str | None) -> str:
    if local is None:
        return _NOTHING_BEFORE
    parts = (
        _SOMETHING + _number(int(part)) if part.isdigit() else _NOTHING_BEFORE + part + _END
        for part in local.split(".")
    )
    return _SOMETHING + "".join(parts) + _END
