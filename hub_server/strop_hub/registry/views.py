"""Rows as the wire shapes that both ends of the API share."""

import json
from collections.abc import Iterable
from urllib.parse import quote

from strop.hub.wire import (
    API_PREFIX,
    CheckReport,
    EnvironmentSummary,
    PublishedFile,
    ReportedCheck,
    VersionDetail,
    VersionSummary,
)
from strop_hub.models import Environment, File, Version, VersionCheck, VersionStatus, Visibility


def environment_summary(
    environment: Environment, owner: str, latest: str | None
) -> EnvironmentSummary:
    """An environment in a list; `latest` is its latest version's number."""
    return EnvironmentSummary(
        owner=owner,
        name=environment.name,
        summary=environment.summary,
        category=environment.category,
        tags=environment.tags,
        is_private=environment.visibility == Visibility.PRIVATE,
        latest_version=latest,
        updated_at=environment.updated_at,
        status=environment.status,
        status_reason=environment.status_reason,
    )


def version_summary(version: Version, owner: str, name: str) -> VersionSummary:
    """A version in a list."""
    assert version.digest is not None, "incomplete versions are never shown"
    return VersionSummary(
        owner=owner,
        name=name,
        version=version.version,
        kind=version.kind,
        digest=version.digest,
        tree_digest=version.tree_digest,
        requires_python=version.requires_python,
        size_bytes=version.size_bytes,
        published_at=version.published_at,
        published_by=version.published_by,
        is_yanked=version.yanked_at is not None,
        yank_reason=version.yank_reason,
        is_quarantined=version.status is VersionStatus.QUARANTINED,
        quarantine_reason=version.quarantine_reason,
        is_closed=version.closed_at is not None,
    )


def version_detail(
    summary: VersionSummary,
    version: Version,
    files: Iterable[File],
    *,
    url: str,
    readme: bytes,
    check: VersionCheck | None = None,
) -> VersionDetail:
    """All about a version; `url` is the hub's own, `readme` the bytes as uploaded."""
    schema = version.settings_schema_json
    return VersionDetail(
        **dict(summary),
        manifest=json.loads(version.manifest_json),
        settings_schema=None if schema is None else json.loads(schema),
        readme=readme.decode(errors="replace"),
        files=[published_file(file, summary, url) for file in files],
        check=None if check is None else reported_check(check),
    )


def reported_check(row: VersionCheck) -> ReportedCheck:
    """A report, with the hub's own count of what failed."""
    report = CheckReport.model_validate_json(row.report_json)
    return ReportedCheck(
        **dict(report),
        is_ok=not any(finding.verdict == "failed" for finding in report.findings),
        reported_at=row.reported_at,
        reported_by=row.reported_by,
    )


def published_file(file: File, version: VersionSummary, url: str) -> PublishedFile:
    """One file of a version, with the address that serves it."""
    return PublishedFile(
        filename=file.filename,
        kind=file.kind,
        sha256=file.sha256,
        size_bytes=file.size_bytes,
        url=file_url(url, version.owner, version.name, version.version, file.filename),
        uploaded_at=file.uploaded_at,
    )


def file_url(url: str, owner: str, name: str, version: str, filename: str) -> str:
    """The absolute address of a file; ``+`` and ``!`` of versions are escaped."""
    number, last = quote(version, safe=""), quote(filename, safe="")
    return f"{url}{API_PREFIX}/environments/{owner}/{name}/versions/{number}/files/{last}"
