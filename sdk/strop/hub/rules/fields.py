"""What each field of a manifest may hold; the validators raise ValueError (step: package)."""

import math
import re
from collections.abc import Callable
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier
from packaging.version import InvalidVersion

from strop.errors import InvalidRefError
from strop.hub.refs import EnvRef, read_range, read_version

MAX_LINE_LENGTH = 512
MAX_TAG_COUNT = 20

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TAG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def check_each(values: list[str], problem: Callable[[str], str | None]) -> list[str]:
    """`values`, when none stands twice and ``problem(value)`` names no fault in any."""
    faults = [fault for value in values if (fault := problem(value))]
    doubled = sorted({value for value in values if values.count(value) > 1})
    faults += [f"{value!a} stands twice" for value in doubled]
    if faults:
        raise ValueError("; ".join(faults))
    return values


def tags(values: list[str]) -> list[str]:
    """Lower-case words for search."""
    if len(values) > MAX_TAG_COUNT:
        raise ValueError(f"has {len(values)} tags; at most {MAX_TAG_COUNT}")
    rule = "is no tag (lower-case letters, digits and `-`, at most 40)"
    return check_each(values, lambda tag: None if _TAG.fullmatch(tag) else f"{tag!a} {rule}")


def secrets(values: list[str]) -> list[str]:
    """Names of variables. A value put here by mistake is a secret: no message repeats it."""
    if not all(_VARIABLE.fullmatch(name) for name in values):
        raise ValueError("an entry is no variable's name. Give the name, never the value")
    return check_each(values, lambda _: None)


def requires(values: list[str]) -> list[str]:
    """References to other environments, at most one to each."""

    def problem(text: str) -> str | None:
        try:
            EnvRef.parse(text)
        except InvalidRefError as error:
            return str(error)
        return None

    check_each(values, problem)
    check_each([EnvRef.parse(text).full_name for text in values], lambda _: None)
    return values


def dependencies(values: list[str]) -> list[str]:
    """Requirements in the form in which `packaging` writes them. Source: PEP 508."""
    faults, requirements = [], []
    for value in values:
        try:
            requirements.append(str(Requirement(line(value))))
        except (InvalidRequirement, ValueError):
            faults.append(f"{value!a} is no requirement, such as httpx>=0.27")
    if faults:
        raise ValueError("; ".join(faults))
    return requirements


def reward_range(value: Any) -> Any:
    """Lowest and highest total reward, as floats."""
    if value is None:
        return None
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or not all(type(end) in (int, float) for end in value):
        raise ValueError("must be two numbers: [lowest, highest]")
    try:
        low, high = (float(end) for end in value)
    except OverflowError:
        low = high = math.inf
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("must be two finite numbers, the lower one first")
    return low, high


def version(text: str) -> str:
    """The normal form. Source: PEP 440."""
    try:
        return str(read_version(text))
    except InvalidVersion:
        raise ValueError("is no version (PEP 440), such as 0.1.0") from None


def requires_python(text: str | None) -> str | None:
    """A version range, or None."""
    try:
        return None if text is None else str(read_range(line(text)))
    except InvalidSpecifier:
        raise ValueError("is no version range, such as >=3.11") from None


def entry_point(text: str | None) -> str | None:
    """``module:function``, or None."""
    if text is not None and _ENTRY_POINT.fullmatch(text) is None:
        raise ValueError("must be `module:function`, such as math_env:load_environment")
    return text


def line(text: str) -> str:
    """A short text without line breaks."""
    if _CONTROL.search(text):
        raise ValueError("must be one line without control characters")
    if len(text) > MAX_LINE_LENGTH:
        raise ValueError(f"has {len(text)} characters; at most {MAX_LINE_LENGTH}")
    return text


def urls(labelled: dict[str, str]) -> dict[str, str]:
    """Web addresses: a catalog links to them, so nothing else may stand there."""
    bad = [label for label, url in labelled.items() if not url.startswith(("https://", "http://"))]
    if bad:
        raise ValueError(f"{', '.join(sorted(bad))}: only http and https addresses")
    for text in (*labelled, *labelled.values()):
        line(text)
    return labelled
