"""Rendered pages in memory, dropped when the change feed says that they are no longer true."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from strop_hub.errors import HubError
from strop_hub.hub import Hub, in_thread
from strop_hub.index import pages, queries
from strop_hub.index.listing import render_listing
from strop_hub.index.pages import PageForms

MAX_CACHED_BYTES = 64 * 1024 * 1024
CHECK_INTERVAL_S = 0.5
"""How often the feed is looked at for writes of other processes; half of what may be stale."""

MAX_CHANGES = 1000
"""Events after which dropping every page is cheaper than looking which changed."""

_TO_FILES = "../../files"
_TO_OWNERS_FILES = "../../owners/{owner}/files"


@dataclass(frozen=True, slots=True)
class PageKey:
    """Which page: of an owner's index or (None) the shared one; a project's or (None) the list."""

    owner: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class _Rendered:
    forms: PageForms
    environment_id: int | None
    serial: int
    """Of the newest event that the page knows of."""


@dataclass(slots=True)
class PageCache:
    """The pages of one process; used on its event loop only.

    Writes of this process are seen at once, those of others within a second.
    """

    hub: Hub
    clock: Callable[[], float] = time.monotonic
    _pages: OrderedDict[PageKey, _Rendered] = field(default_factory=OrderedDict)
    _size_bytes: int = 0
    _serial: int | None = None
    """Of the newest event heard of; None before the feed was first looked at."""
    _checked_at: float = float("-inf")
    _is_dirty: bool = True
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        """Hear of every commit of this process."""
        self.hub.database.listeners.append(self.mark_dirty)

    def mark_dirty(self) -> None:
        """Look at the feed before the next page is served; may be called from any thread."""
        self._is_dirty = True

    async def get(self, key: PageKey) -> PageForms | None:
        """The page; None when there is nothing to show, for whatever cause."""
        # Who comes while the feed is read waits for what it says.
        is_being_read = self._lock.locked()
        if is_being_read or self._is_dirty or self.clock() - self._checked_at > CHECK_INTERVAL_S:
            try:
                await self._catch_up()
            except (HubError, DBAPIError):
                # What is known is shown while the database is away; every file asks it anyway.
                if key not in self._pages:
                    raise
        cached = self._pages.get(key)
        if cached is None:
            cached = await in_thread(self.hub.workers.database, _render, self.hub, key)
            if cached is None:
                return None
            self._keep(key, cached)
        else:
            self._pages.move_to_end(key)
        return cached.forms

    async def _catch_up(self) -> None:
        async with self._lock:
            if not self._is_dirty and self.clock() - self._checked_at <= CHECK_INTERVAL_S:
                return
            # Cleared before the feed is read: a commit meanwhile sets it again.
            self._is_dirty = False
            checked_at = self.clock()
            try:
                serial, changed = await in_thread(
                    self.hub.workers.database, _read_changes, self.hub, self._serial
                )
            except BaseException:
                self._is_dirty = True
                raise
            self._drop(changed)
            self._serial, self._checked_at = serial, checked_at

    def _drop(self, changed: set[int] | None) -> None:
        if changed is not None and not changed:
            return
        stale = [
            key
            for key, page in self._pages.items()
            if changed is None or page.environment_id is None or page.environment_id in changed
        ]
        for key in stale:
            self._size_bytes -= self._pages.pop(key).forms.size_bytes

    def _keep(self, key: PageKey, rendered: _Rendered) -> None:
        if self._serial is None or rendered.serial < self._serial or key in self._pages:
            # It was rendered before a change that has been heard of since.
            return
        self._pages[key] = rendered
        self._size_bytes += rendered.forms.size_bytes
        while self._size_bytes > MAX_CACHED_BYTES and self._pages:
            _, dropped = self._pages.popitem(last=False)
            self._size_bytes -= dropped.forms.size_bytes


def _read_changes(hub: Hub, after: int | None) -> tuple[int, set[int] | None]:
    """The newest serial, and the environments that changed since `after`; None for all."""
    with hub.database.read() as session:
        newest = queries.last_serial(session)
        if after is None or newest == after:
            return newest, set()
        return newest, queries.changed_environments(session, after, MAX_CHANGES)


def _render(hub: Hub, key: PageKey) -> _Rendered | None:
    with hub.database.read() as session:
        serial = queries.last_serial(session)
        if key.name is None:
            listing = _render_listing(session, key.owner)
            return None if listing is None else _Rendered(listing, None, serial)
        project = queries.find_project(session, key.owner, key.name)
        if project is None:
            return None
        files = queries.files_of(session, project)
    to_files = _TO_OWNERS_FILES if key.owner is None else _TO_FILES
    forms = pages.render_project(key.name, files, to_files, project, hub.settings.url)
    return _Rendered(forms, project.environment_id, serial)


def _render_listing(session: Session, owner: str | None) -> PageForms | None:
    if owner is None:
        return render_listing(queries.claimed_names(session))
    listing = render_listing(queries.names_of(session, owner))
    return listing if listing.has_entries else None
