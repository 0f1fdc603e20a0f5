"""The parts of a running hub, opened once and passed to whoever needs them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Self, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from strop_hub.db import Database
from strop_hub.settings import Settings
from strop_hub.storage import FileStorage, Storage

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
    storage: Storage
    workers: Workers

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Open database and storage; makes the folders, and no tables."""
        for folder in (settings.data, settings.blobs, settings.uploads):
            folder.mkdir(parents=True, exist_ok=True)
        os.chmod(settings.data, 0o700)
        database = Database.open(settings.database)
        return cls(settings, database, FileStorage(settings.blobs), Workers.of(settings))
