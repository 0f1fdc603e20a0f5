"""Wheels that were fetched once, filed by digest and checked again each time they are used."""

import os
from pathlib import Path

from strop.config import cache_folder
from strop.hub.client import HubClient
from strop.hub.download import Progress, sha256_of
from strop.hub.wire import PublishedFile


def fetch_wheel(client: HubClient, file: PublishedFile, progress: Progress | None = None) -> Path:
    """The path of a whole and checked copy of `file`, from the cache or from the hub.

    The folder is the sha256, the name that of the wheel, since installers read it.

    Raises:
        DigestMismatchError: the hub sent other bytes than it promised.
    """
    folder = cache_folder() / "wheels" / file.sha256
    path = folder / Path(file.filename).name
    if path.is_file():
        if sha256_of(path) == file.sha256:
            return path
        path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    client.download(file, path, progress)
    os.utime(folder)
    return path
