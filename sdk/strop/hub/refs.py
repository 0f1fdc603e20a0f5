"""Names of environments: ``owner/name[@selector]``, read by one parser (step: resolve)."""

import re
from dataclasses import dataclass
from typing import Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from strop.errors import InvalidRefError

NAME_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
"""A distribution's or an owner's name as people type it: ASCII, at most 100 characters."""

TAG_PATTERN = r"[a-z][a-z0-9._-]{0,62}"
"""A tag of one's own."""

LATEST = "latest"
"""The computed tag: the newest version that is neither yanked nor a pre-release."""

_NAME = re.compile(NAME_PATTERN)
_REF = re.compile(rf"(?P<owner>{NAME_PATTERN})/(?P<name>{NAME_PATTERN})(?:@(?P<selector>\S+))?")
_DIGEST = re.compile(r"sha256:(?P<hex>[0-9a-f]{12,64})")
_TAG = re.compile(TAG_PATTERN)
_MAX_SELECTOR_LENGTH = 256
"""Versions are compared as numbers, of which Python converts no more than 4,300 digits."""

_FORM = "Write owner/name, owner/name@1.2.0, @~=1.2, @latest or @sha256:<12 or more hex digits>"


def normalize_name(text: str) -> str:
    """The PEP 503 form of an owner's or environment's name; validated first, normalised after.

    Raises:
        InvalidRefError: `text` is no name.
    """
    if _NAME.fullmatch(text) is None:
        raise InvalidRefError(
            f"{text!r} is no name. Use letters, digits, `.`, `-` and `_`, "
            "with a letter or digit at both ends, at most 100 characters."
        )
    return str(canonicalize_name(text))


def read_version(text: str) -> Version:
    """A version that is short enough to be compared.

    Raises:
        InvalidVersion: `text` is none.
    """
    if len(text) > _MAX_SELECTOR_LENGTH:
        raise InvalidVersion(f"a version of {len(text)} characters")
    return Version(text)


def read_range(text: str) -> SpecifierSet:
    """A range whose versions are short enough to be compared.

    Raises:
        InvalidSpecifier: `text` is none.
    """
    if len(text) > _MAX_SELECTOR_LENGTH:
        raise InvalidSpecifier(f"a range of {len(text)} characters")
    return SpecifierSet(text)


@dataclass(frozen=True, slots=True)
class EnvRef:
    """The name of an environment and, after ``@``, which of its versions.

    Owner and name are kept in the normal form of PEP 503, so ``Ada/My_Env`` and
    ``ada/my-env`` are the same environment. At most one selector is set; with none,
    the reference means the newest version that is neither yanked nor a pre-release.
    """

    owner: str
    name: str
    version: Version | None = None
    """Exactly this version, compared as PEP 440: ``1.0`` is ``1.0.0``."""
    specifier: SpecifierSet | None = None
    """The newest version inside this range."""
    tag: str | None = None
    """A pointer with a name; ``latest`` is computed."""
    digest: str | None = None
    """The first 12 to 64 hex digits of the wheel's sha256."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference.

        Raises:
            InvalidRefError: `text` has another form.
        """
        match = _REF.fullmatch(text)
        if match is None:
            raise InvalidRefError(f"{text!r} names no environment. {_FORM}.")
        owner, name = (normalize_name(part) for part in match.group("owner", "name"))
        selector = match["selector"]
        return cls(owner, name) if selector is None else cls(owner, name, *_select(selector, text))

    @property
    def full_name(self) -> str:
        """``owner/name``, without the selector."""
        return f"{self.owner}/{self.name}"

    @property
    def selector(self) -> str | None:
        """The part after ``@`` in its normal form; None when there is none."""
        if self.digest is not None:
            return f"sha256:{self.digest}"
        chosen = self.version or self.specifier or self.tag
        return None if chosen is None else str(chosen)

    def __str__(self) -> str:
        return self.full_name if self.selector is None else f"{self.full_name}@{self.selector}"


_Selected = tuple[Version | None, SpecifierSet | None, str | None, str | None]


def _select(selector: str, text: str) -> _Selected:
    if len(selector) > _MAX_SELECTOR_LENGTH:
        raise InvalidRefError(
            f"{text[:80]!r}… selects no version: the part after `@` has {len(selector)} "
            f"characters, at most {_MAX_SELECTOR_LENGTH} are allowed. {_FORM}."
        )
    if match := _DIGEST.fullmatch(selector):
        return None, None, None, match["hex"]
    try:
        return Version(selector), None, None, None
    except InvalidVersion:
        pass
    try:
        specifier = SpecifierSet(selector)
    except InvalidSpecifier:
        specifier = SpecifierSet()
    # Commas alone make a range of everything, which is not what anybody meant.
    if len(specifier):
        return None, specifier, None, None
    if _TAG.fullmatch(selector):
        return None, None, selector, None
    raise InvalidRefError(f"{selector!r} in {text!r} selects no version. {_FORM}.")
