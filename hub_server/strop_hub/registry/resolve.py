"""Many references to exact versions with their files, and what those require (step: resolve)."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from packaging.version import InvalidVersion
from sqlalchemy import select
from sqlalchemy.orm import Session

from strop.errors import InvalidRefError
from strop.hub.refs import EnvRef, read_version
from strop.hub.wire import (
    FileKind,
    PublishedFile,
    ResolvedVersion,
    ResolveError,
    ResolveRequest,
    ResolveResult,
)
from strop_hub.auth import Caller
from strop_hub.errors import InvalidRequestError
from strop_hub.hub import Hub
from strop_hub.models import File, Version
from strop_hub.registry import queries, service, views
from strop_hub.registry.candidates import Candidate, Shelf, fill_whole, load_shelves
from strop_hub.registry.choice import (
    Cause,
    UnresolvableError,
    Wanted,
    choose,
    is_exact,
    refuse_quarantined_shelf,
    warnings_about,
)
from strop_hub.registry.moves import find_moved

_MAX_ROUNDS = 30
"""Of choosing again after a requirement narrowed a choice; far beyond any sensible depth."""
_MAX_SUGGESTIONS = 5
"""Missing names of one request for which near names are looked up: each costs a search."""


def resolve(hub: Hub, caller: Caller, request: ResolveRequest) -> ResolveResult:
    """One entry for each reference, in order; an entry that fails does not hinder the others.

    The whole answer comes from one snapshot of the database.

    Raises:
        InvalidRequestError: `python_version` is no version.
    """
    if request.python_version is not None:
        _check_python(request.python_version)
    with hub.database.read() as session:
        resolution = _Resolution(session, caller, request.python_version, hub.settings.url)
        resolution.load_roots(request.references)
        return ResolveResult(items=[resolution.resolve(text) for text in request.references])


def _check_python(text: str) -> None:
    try:
        read_version(text)
    except InvalidVersion:
        raise InvalidRequestError(
            f"`python_version` {text[:40]!a} is no version. Send one such as 3.11.7."
        ) from None


class _Resolution:
    """One request's state: what has been loaded, so that nothing is loaded twice."""

    def __init__(
        self, session: Session, caller: Caller, python_version: str | None, url: str
    ) -> None:
        self._session = session
        self._caller = caller
        self._python_version = python_version
        self._url = url
        self._shelves: dict[str, Shelf | None] = {}
        self._seen: set[str] = set()
        self._manifests: dict[int, dict[str, Any]] = {}
        self._details: dict[int, tuple[Version, list[PublishedFile]]] = {}
        self._missing: dict[str, str] = {}
        self._moved: dict[str, tuple[str, str]] = {}
        """The present names of environments that are asked for by former ones."""
        self._suggestions_left = _MAX_SUGGESTIONS

    def load_roots(self, texts: Iterable[str]) -> None:
        """Load what the references name, and what they will most likely mean, in one go each."""
        roots = [root for text in texts if (root := _parse(text)) is not None]
        self._load(roots)
        chosen = []
        for root in roots:
            with suppress(UnresolvableError):
                chosen.append((self._present(root), self._choose((root,))))
        self._load_details(chosen)

    def resolve(self, text: str) -> ResolvedVersion | ResolveError:
        """The entry for one reference."""
        try:
            root = EnvRef.parse(text)
            chosen = self._choose_all(root)
        except InvalidRefError as error:
            return ResolveError(reference=text, code=Cause.INVALID_REFERENCE, detail=str(error))
        except UnresolvableError as error:
            return ResolveError(reference=text, code=error.code, detail=error.detail)
        own = chosen.pop(root.full_name)
        required = [(self._present(EnvRef.parse(name)), chosen[name]) for name in sorted(chosen)]
        root = self._present(root)
        self._load_details([(root, own), *required])
        requires = [
            self._entry(f"{reference}@{found.text}", reference, found, [])
            for reference, found in required
        ]
        return self._entry(text, root, own, requires)

    def _choose_all(self, root: EnvRef) -> dict[str, Candidate]:
        """A version for the root and for everything required, by full name.

        Every choice fits all references to it from the versions that are chosen with it. Where a
        requirement narrows a choice, what that choice requires is looked at again.
        """
        chosen: dict[str, Candidate] = {}
        for _ in range(_MAX_ROUNDS):
            wanted = self._wanted(root, chosen)
            self._load(reference for references in wanted.values() for reference in references)
            again = {
                name: self._choose_required(root, references) for name, references in wanted.items()
            }
            if again == chosen:
                return chosen
            chosen = again
            self._load_manifests(chosen.values())
        raise UnresolvableError(
            Cause.REQUIRES_CONFLICT,
            f"`{root}`: its requirements contradict each other. Ask its owner to mend `requires`.",
        )

    def _wanted(self, root: EnvRef, chosen: dict[str, Candidate]) -> dict[str, tuple[EnvRef, ...]]:
        """All references by the environment that they name, reached from the root."""
        wanted: dict[str, tuple[EnvRef, ...]] = {}
        reached = [root]
        visited: set[str] = set()
        while reached:
            reference = reached.pop()
            name = reference.full_name
            wanted[name] = (*wanted.get(name, ()), reference)
            if name in chosen and name not in visited:
                visited.add(name)
                reached += self._requires(chosen[name])
        return wanted

    def _requires(self, found: Candidate) -> list[EnvRef]:
        texts = self._manifests[found.id].get("requires") or []
        return [reference for text in texts if (reference := _parse(str(text))) is not None]

    def _choose_required(self, root: EnvRef, references: tuple[EnvRef, ...]) -> Candidate:
        try:
            return self._choose(references)
        except UnresolvableError as error:
            if references[0].full_name == root.full_name:
                raise
            raise UnresolvableError(
                Cause.REQUIRES_UNRESOLVED, f"`{root}` requires {references[0]}: {error.detail}"
            ) from None

    def _choose(self, references: tuple[EnvRef, ...]) -> Candidate:
        references = tuple(self._present(one) for one in references)
        wanted = Wanted(references, self._python_version)
        shelf = self._shelves.get(wanted.full_name)
        if shelf is None:
            name = wanted.full_name
            if name not in self._missing:
                self._missing[name] = self._describe_missing(references[0])
            raise UnresolvableError(Cause.NOT_FOUND, self._missing[name])
        refuse_quarantined_shelf(shelf, wanted.full_name)
        references = tuple(shelf.untagged(one) for one in references)
        wanted = Wanted(references, self._python_version)
        if not shelf.is_whole:
            try:
                found = choose(wanted, shelf.newest_first)
            except UnresolvableError:
                pass
            else:
                # What others named may be on the shelf too: without an exact name only the
                # latest is known to be the best of all.
                if found.id == shelf.latest_id or any(is_exact(one) for one in references):
                    return found
            fill_whole(self._session, shelf)
        return choose(wanted, shelf.newest_first)

    def _describe_missing(self, reference: EnvRef) -> str:
        if self._suggestions_left > 0:
            self._suggestions_left -= 1
            return service.missing_environment(
                self._session, self._caller, reference.owner, reference.name
            )
        return f"`{reference.full_name}` is not on this hub, or not visible to you."

    def _load(self, references: Iterable[EnvRef]) -> None:
        new = [
            reference for reference in dict.fromkeys(references) if str(reference) not in self._seen
        ]
        if not new:
            return
        self._seen.update(str(reference) for reference in new)
        self._put_shelves(new)
        missing = {one.full_name: one for one in new if self._shelves.get(one.full_name) is None}
        for name, one in missing.items():
            moved = find_moved(self._session, self._caller, one.owner, one.name)
            if moved is not None:
                self._moved[name] = moved
        self._put_shelves([self._present(one) for one in new if one.full_name in self._moved])

    def _present(self, reference: EnvRef) -> EnvRef:
        """The reference under the environment's present name."""
        owner, name = self._moved.get(reference.full_name, (reference.owner, reference.name))
        return replace(reference, owner=owner, name=name)

    def _put_shelves(self, new: list[EnvRef]) -> None:
        for name, shelf in load_shelves(self._session, self._caller, new).items():
            known = self._shelves.get(name)
            if known is None:
                self._shelves[name] = shelf
            else:
                known.candidates.update(shelf.candidates)
                known.tags.update(shelf.tags)
                known.is_whole = known.is_whole or shelf.is_whole

    def _load_manifests(self, chosen: Iterable[Candidate]) -> None:
        missing = [found.id for found in chosen if found.id not in self._manifests]
        if missing:
            statement = select(Version.id, Version.manifest_json).where(Version.id.in_(missing))
            for version_id, text in self._session.execute(statement):
                self._manifests[version_id] = json.loads(text)

    def _load_details(self, chosen: Sequence[tuple[EnvRef, Candidate]]) -> None:
        missing = {
            found.id: reference for reference, found in chosen if found.id not in self._details
        }
        if not missing:
            return
        rows = self._session.scalars(select(Version).where(Version.id.in_(missing))).all()
        files: dict[int, list[File]] = {}
        for file in queries.find_files(self._session, missing):
            files.setdefault(file.version_id, []).append(file)
        for row in rows:
            reference = missing[row.id]
            summary = views.version_summary(row, reference.owner, reference.name)
            published = [
                views.published_file(file, summary, self._url) for file in files.get(row.id, [])
            ]
            if row.id not in self._manifests:
                self._manifests[row.id] = json.loads(row.manifest_json)
            self._details[row.id] = row, published

    def _entry(
        self, text: str, reference: EnvRef, found: Candidate, requires: list[ResolvedVersion]
    ) -> ResolvedVersion:
        row, files = self._details[found.id]
        by_kind = {file.kind: file for file in files}
        return ResolvedVersion(
            reference=text,
            owner=reference.owner,
            name=reference.name,
            version=row.version,
            kind=row.kind,
            digest=found.digest,
            wheel=by_kind[FileKind.WHEEL],
            source=by_kind.get(FileKind.SOURCE),
            manifest=self._manifests[found.id],
            requires=requires,
            warnings=self._move_warnings(text, reference)
            + warnings_about(found, reference.full_name, self._shelf(reference))
            + [warning for required in requires for warning in required.warnings],
        )

    def _move_warnings(self, text: str, reference: EnvRef) -> list[str]:
        former = EnvRef.parse(text).full_name
        if former == reference.full_name:
            return []
        return [f"`{former}` is now `{reference.full_name}`. Use that name."]

    def _shelf(self, reference: EnvRef) -> Shelf:
        shelf = self._shelves[reference.full_name]
        assert shelf is not None, "something was chosen from it"
        return shelf


def _parse(text: str) -> EnvRef | None:
    try:
        return EnvRef.parse(text)
    except InvalidRefError:
        return None
