"""Serve the SDK itself: every hub publishes the one that it runs with, as ``strop/strop``."""

import hashlib
from pathlib import Path

from strop.hub.package import build_sdk_wheel
from strop.hub.wire import PushResult
from strop_hub.audit.service import Act
from strop_hub.auth import Caller
from strop_hub.errors import VersionExistsError
from strop_hub.hub import Hub
from strop_hub.publish.form import ReceivedFile
from strop_hub.publish.record import Order
from strop_hub.publish.rules import SDK_NAME
from strop_hub.publish.service import publish_files
from strop_hub.publish.staging import staging_folder
from strop_hub.publish.validate import WHEEL, examine


def publish_sdk(hub: Hub, caller: Caller) -> PushResult:
    """Publish the running SDK by the same steps as every push; without effect when it is there.

    Raises:
        VersionExistsError: This version is published with other contents.
        HubError: Whatever else refuses a push.
    """
    with staging_folder(hub.settings.uploads) as folder:
        wheel = received(build_sdk_wheel(folder))
        candidate = examine({WHEEL: wheel}, {})
        version = candidate.facts.version
        act = Act("publish", f"{SDK_NAME}/{SDK_NAME}@{version}")
        return publish_files(hub, Order(caller, SDK_NAME, candidate, None, act))


def received(path: Path) -> ReceivedFile:
    """A file of this machine as if it had come with a request."""
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return ReceivedFile(path, path.name, sha256, path.stat().st_size)


def describe_conflict(error: VersionExistsError) -> str:
    """What an operator does about an SDK whose version was published with other contents."""
    return f"the running SDK was not published: {error.detail}"
