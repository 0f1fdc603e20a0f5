"""Which version a reference means, among those that are there: rules without a database."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version as Number

from strop.hub.refs import LATEST, EnvRef, read_range
from strop.hub.wire import EnvironmentStatus
from strop_hub.registry.candidates import Candidate, Shelf

_MIN_YANKED_SHOWN = 3


class Cause(StrEnum):
    """Why a reference means no version: the codes of `ResolveError`."""

    INVALID_REFERENCE = "invalid_reference"
    NOT_FOUND = "not_found"
    VERSION_NOT_FOUND = "version_not_found"
    VERSION_YANKED = "version_yanked"
    VERSION_QUARANTINED = "version_quarantined"
    ENVIRONMENT_QUARANTINED = "environment_quarantined"
    DIGEST_AMBIGUOUS = "digest_ambiguous"
    PYTHON_EXCLUDED = "python_excluded"
    REQUIRES_CONFLICT = "requires_conflict"
    REQUIRES_UNRESOLVED = "requires_unresolved"


class UnresolvableError(Exception):
    """A reference that means no version; becomes a `ResolveError` with this code."""

    def __init__(self, code: Cause, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that is asked of one environment at once, by the root and by what requires it."""

    references: tuple[EnvRef, ...]
    python_version: str | None

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return self.references[0].full_name

    def __str__(self) -> str:
        return " and ".join(f"`{reference}`" for reference in dict.fromkeys(self.references))


def is_exact(reference: EnvRef) -> bool:
    """Whether a reference names one version, so that even a yanked one is meant (PEP 592)."""
    if reference.version is not None or reference.digest is not None:
        return True
    clauses = list(reference.specifier or [])
    return any(
        clause.operator == "===" or (clause.operator == "==" and not clause.version.endswith(".*"))
        for clause in clauses
    )


def choose(wanted: Wanted, newest_first: list[Candidate]) -> Candidate:
    """The newest candidate that fits all references.

    Pre-releases only when nothing else fits or a reference names one, yanked versions only when
    named exactly, and never one that the Python version excludes.

    Raises:
        UnresolvableError: Nothing fits; the code tells which rule left nothing.
    """
    for reference in wanted.references:
        _refuse_unknown_tag(reference)
        _refuse_ambiguous_digest(reference, newest_first)
    matching = [found for found in newest_first if _matches(wanted, found)]
    if not matching:
        raise UnresolvableError(Cause.VERSION_NOT_FOUND, _describe_nothing(wanted, newest_first))
    matching = _without_quarantined(wanted, matching)
    usable = [found for found in matching if not found.is_yanked]
    if any(is_exact(reference) for reference in wanted.references):
        usable = usable or matching
    if not usable:
        raise UnresolvableError(Cause.VERSION_YANKED, _describe_yanked(wanted, matching))
    fitting = [found for found in usable if is_python_fitting(found, wanted.python_version)]
    if not fitting:
        needs = usable[0].requires_python
        raise UnresolvableError(
            Cause.PYTHON_EXCLUDED,
            f"{wanted}: {usable[0].text} needs Python {needs}, and this is "
            f"{wanted.python_version}. Use a Python that fits, or another version.",
        )
    if any(_asks_for_prerelease(reference) for reference in wanted.references):
        return fitting[0]
    return next((found for found in fitting if not found.is_prerelease), fitting[0])


def refuse_quarantined_shelf(shelf: Shelf, full_name: str) -> None:
    """Refuse every version of an environment that may do harm.

    Raises:
        UnresolvableError: It is quarantined.
    """
    if shelf.status is EnvironmentStatus.QUARANTINED:
        reason = f": {shelf.status_reason}" if shelf.status_reason else ""
        raise UnresolvableError(
            Cause.ENVIRONMENT_QUARANTINED,
            f"`{full_name}` is quarantined{reason}. Use another environment, or ask its owner.",
        )


def warnings_about(chosen: Candidate, full_name: str, shelf: Shelf) -> list[str]:
    """What whoever gets this version should know."""
    warnings = _yank_warnings(chosen, full_name)
    if shelf.status is not EnvironmentStatus.ACTIVE:
        reason = f": {shelf.status_reason}" if shelf.status_reason else ""
        warnings.append(f"`{full_name}` is {shelf.status}{reason}.")
    return warnings


def _yank_warnings(chosen: Candidate, full_name: str) -> list[str]:
    if not chosen.is_yanked:
        return []
    reason = f": {chosen.yank_reason}" if chosen.yank_reason else ""
    return [f"`{full_name}@{chosen.text}` is yanked{reason}. It was chosen because it was named."]


def is_python_fitting(found: Candidate, python_version: str | None) -> bool:
    """Whether a version's Requires-Python lets a Python version use it."""
    if python_version is None or not found.requires_python:
        return True
    specifier = _specifier(found.requires_python)
    return specifier is None or specifier.contains(Number(python_version), prereleases=True)


@lru_cache(maxsize=512)
def _specifier(text: str) -> SpecifierSet | None:
    try:
        return read_range(text)
    except InvalidSpecifier:
        return None


def _matches(wanted: Wanted, found: Candidate) -> bool:
    return all(_fits(reference, found) for reference in wanted.references)


def _fits(reference: EnvRef, found: Candidate) -> bool:
    if reference.version is not None:
        return found.number == reference.version
    if reference.digest is not None:
        return found.digest.startswith(reference.digest)
    if reference.specifier is not None:
        return reference.specifier.contains(found.number, prereleases=True)
    return True


def _asks_for_prerelease(reference: EnvRef) -> bool:
    if reference.specifier is not None:
        return bool(reference.specifier.prereleases)
    return is_exact(reference)


def _refuse_unknown_tag(reference: EnvRef) -> None:
    if reference.tag is not None and reference.tag != LATEST:
        raise UnresolvableError(
            Cause.VERSION_NOT_FOUND,
            f"`{reference.full_name}` has no tag `{reference.tag}`. "
            f"Use `{reference.full_name}@{LATEST}`, a version or a range.",
        )


def _refuse_ambiguous_digest(reference: EnvRef, newest_first: list[Candidate]) -> None:
    if reference.digest is None:
        return
    named = [found for found in newest_first if _fits(reference, found)]
    if len(named) > 1:
        listed = ", ".join(f"{found.text} (sha256:{found.digest[:20]}…)" for found in named)
        raise UnresolvableError(
            Cause.DIGEST_AMBIGUOUS, f"`{reference}` fits {listed}. Give more digits of the digest."
        )


def _without_quarantined(wanted: Wanted, matching: list[Candidate]) -> list[Candidate]:
    served = [found for found in matching if not found.is_quarantined]
    if served:
        return served
    worst = matching[0]
    reason = f": {worst.quarantine_reason}" if worst.quarantine_reason else ""
    raise UnresolvableError(
        Cause.VERSION_QUARANTINED,
        f"`{wanted.full_name}@{worst.text}` is quarantined{reason}. "
        "Use another version, or ask its owner.",
    )


def _describe_nothing(wanted: Wanted, newest_first: list[Candidate]) -> str:
    there = ", ".join(found.text for found in newest_first[:5])
    remedy = f"The newest are {there}" if there else "It has no version that can be had"
    return f"no version of `{wanted.full_name}` fits {wanted}. {remedy}."


def _describe_yanked(wanted: Wanted, matching: list[Candidate]) -> str:
    shown = ", ".join(
        f"{found.text}{f' ({found.yank_reason})' if found.yank_reason else ''}"
        for found in matching[:_MIN_YANKED_SHOWN]
    )
    return (
        f"every version that fits {wanted} is yanked: {shown}. "
        f"Name one exactly, as in `{wanted.full_name}@{matching[0].text}`, to use it nevertheless."
    )
