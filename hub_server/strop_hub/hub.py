"""The parts of a running hub, opened once and passed to whoever needs them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Self, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from strop_hub.accounts.token_use import TokenUses
from strop_hub.db import Database
from strop_hub.downloads import Downloads
from strop_hub.leases import LeasedStorage
from strop_hub.settings import Settings
from strop_hub.storage import open_storage

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workers:
    """Threads for blocking work, each kind under a limit of its own.

    So a slow store or a large archive cannot take the threads that ``/healthz`` and reads need.
    """

    database: CapacityLimiter
    blob: CapacityLimiter
    archive: CapacityLimiter

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As many threads as the settings allow."""
        return cls(
            CapacityLimiter(settings.database_threads),
            CapacityLimiter(settings.blob_threads),
            CapacityLimiter(settings.archive_threads),
        )


async def in_thread(
    limiter: CapacityLimiter, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run `fn` in a thread once `limiter` has room; a cancelled request still lets it finish."""
    return await anyio.to_thread.run_sync(partial(fn, *args, **kwargs), limiter=limiter)


@dataclass(frozen=True, slots=True)
class Hub:
    """Everything that a service may need."""

    settings: Settings
    database: Database
    storage: LeasedStorage
    workers: Workers
    token_uses: TokenUses
    downloads: Downloads

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Open database and storage; makes the folders, and no tables."""
        for folder in (settings.data, settings.uploads):
            folder.mkdir(parents=True, exist_ok=True)
        os.chmod(settings.data, 0o700)
        database = Database.open(settings.database)
        storage = LeasedStorage(open_storage(settings), database)
        workers = Workers.of(settings)
        return cls(settings, database, storage, workers, TokenUses(database), Downloads(database))

    def flush(self) -> None:
        """Write what is only in memory."""
        self.token_uses.flush()
        self.downloads.flush()

    def close(self) -> None:
        """Write what is only in memory, and let go of the database."""
        self.flush()
        self.database.close()
