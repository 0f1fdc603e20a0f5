"""What an owner does to what is published, over a hub's API (step: publish)."""

from strop.hub.client import HubClient
from strop.hub.refs import EnvRef
from strop.hub.wire import (
    CheckReport,
    EnvironmentDetail,
    EnvironmentStatus,
    ReportedCheck,
    StatusRequest,
    TagList,
    TagRequest,
    TransferRequest,
    VersionDetail,
)


def set_status(
    client: HubClient, ref: EnvRef, status: EnvironmentStatus, reason: str = ""
) -> EnvironmentDetail:
    """Say how an environment is to be taken from now on."""
    body = StatusRequest(status=status, reason=reason)
    return client.ask(EnvironmentDetail, "PUT", [*_parts(ref), "status"], body)


def transfer(client: HubClient, ref: EnvRef, owner: str) -> EnvironmentDetail:
    """Give an environment to another owner; its former name leads to the new one."""
    body = TransferRequest(owner=owner)
    return client.ask(EnvironmentDetail, "POST", [*_parts(ref), "transfer"], body)


def close(client: HubClient, ref: EnvRef) -> VersionDetail:
    """Let a version take no further file, for ever."""
    return client.ask(VersionDetail, "POST", [*_parts(ref), "close"])


def report_check(client: HubClient, ref: EnvRef, report: CheckReport) -> ReportedCheck:
    """Say what a check found about a version."""
    return client.ask(ReportedCheck, "POST", [*_parts(ref), "checks"], report)


def delete(client: HubClient, ref: EnvRef) -> None:
    """Take a version away, or all of an environment's; their numbers are spent for ever."""
    client.tell("DELETE", _parts(ref))


def tags(client: HubClient, ref: EnvRef) -> TagList:
    """The tags of an environment; where one has pointed when `ref` names it."""
    tag = [] if ref.tag is None else [ref.tag]
    return client.ask(TagList, "GET", [*_parts(ref), "tags", *tag])


def set_tag(client: HubClient, ref: EnvRef, tag: str) -> TagList:
    """Point a tag to the version that `ref` names."""
    body = TagRequest(version=str(ref.version))
    return client.ask(TagList, "PUT", [*_parts(ref)[:3], "tags", tag], body)


def remove_tag(client: HubClient, ref: EnvRef, tag: str) -> TagList:
    """Take a tag away; its history stays."""
    return client.ask(TagList, "DELETE", [*_parts(ref)[:3], "tags", tag])


def _parts(ref: EnvRef) -> list[str]:
    version = [] if ref.version is None else ["versions", str(ref.version)]
    return ["environments", ref.owner, ref.name, *version]
