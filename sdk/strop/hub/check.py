"""Tell a hub what a check found about the very tree that was pushed (steps: check, publish)."""

import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from importlib import metadata
from pathlib import Path

from strop.errors import ConfigError, HubRefusedError
from strop.hub import release
from strop.hub.client import HubClient
from strop.hub.manifest import read_project
from strop.hub.refs import EnvRef
from strop.hub.source import list_source, tree_digest
from strop.hub.wire import CheckFinding, CheckReport, ReportedCheck, VersionSummary
from strop.testing import CheckReport as Found

_MESSAGE_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class PushedTree:
    """A folder, and the version that was made of it as it is."""

    folder: Path
    tree_digest: str
    version: VersionSummary

    @property
    def ref(self) -> EnvRef:
        """The version by its name."""
        version = self.version
        return EnvRef.parse(f"{version.owner}/{version.name}@{version.version}")


def find_pushed(client: HubClient, owner: str, folder: Path) -> PushedTree:
    """The version that a push of the folder, as it is now, has made.

    Raises:
        ConfigError: There is none.
        HubRefusedError: The hub refuses to tell.
    """
    name = read_project(folder).name
    digest = tree_digest(folder, list_source(folder))
    try:
        versions = client.versions(owner, name)
        found = next((each for each in versions if each.tree_digest == digest), None)
    except HubRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        found = None
    if found is None:
        raise ConfigError(
            f"No version of {owner}/{name} on {client.base_url} has the tree of {folder} as it is "
            "now. Push it first: the report belongs to what was pushed."
        )
    return PushedTree(folder, digest, found)


def publish_check(
    client: HubClient, pushed: PushedTree, found: Found, checked_at: datetime
) -> ReportedCheck:
    """Report a check; the same report again changes nothing.

    Names of this machine's folders are taken out of the messages.

    Raises:
        ConfigError: The folder has changed since it was compared.
        HubRefusedError: The hub refuses the report.
    """
    if tree_digest(pushed.folder, list_source(pushed.folder)) != pushed.tree_digest:
        raise ConfigError(
            f"{pushed.folder} has changed during the check, so that the report is not about "
            f"{pushed.ref}. Nothing was sent; push, then check again."
        )
    findings = [
        CheckFinding(**{**asdict(each), "message": _shown(each.message, pushed.folder)})
        for each in found.findings
    ]
    report = CheckReport(
        digest=pushed.version.digest,
        strop_version=metadata.version("strop"),
        python_version=".".join(map(str, sys.version_info[:3])),
        checked_at=checked_at,
        findings=findings,
        measures=found.measures,
    )
    return release.report_check(client, pushed.ref, report)


def _shown(message: str, folder: Path) -> str:
    """A message without what JSON readers refuse, and without names of this machine."""
    for path, mark in ((folder.resolve(), "."), (Path.home(), "~")):
        message = message.replace(str(path), mark)
    return message.encode("utf-8", "replace").decode()[:_MESSAGE_CHARS]
