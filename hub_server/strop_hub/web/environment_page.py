"""What the page of an environment shows, computed from the version that it is about."""

from typing import Any

from markupsafe import Markup

from strop.hub.wire import EnvironmentDetail, VersionDetail, VersionPage
from strop_hub.web.check_rows import check_view
from strop_hub.web.readme import render_readme
from strop_hub.web.setting_rows import setting_rows


def page_context(
    environment: EnvironmentDetail, version: VersionDetail, versions: VersionPage
) -> dict[str, Any]:
    """The values that the template needs."""
    manifest = version.manifest
    return {
        "version": version,
        "versions": versions,
        "manifest": {
            "summary": _text(manifest.get("summary")) or environment.summary,
            "category": _text(manifest.get("category")) or "other",
            "tags": _texts(manifest.get("tags")),
            "requires": _texts(manifest.get("requires")),
            "dependencies": _texts(manifest.get("dependencies")),
        },
        "reference": f"{version.owner}/{version.name}@{version.version}",
        "latest_version": environment.latest_version,
        "is_private": environment.is_private,
        "status": environment.status.value,
        "status_reason": environment.status_reason,
        "facts": _facts(version),
        "links": _links(manifest.get("urls")),
        "settings": setting_rows(version.settings_schema),
        "check": check_view(version.check),
        # The one place where markup is trusted: it has just been cleaned.
        "readme": Markup(render_readme(version.readme)),  # noqa: S704
    }


def _facts(version: VersionDetail) -> list[tuple[str, str]]:
    """What a person asks before an install, as label and value; unknown facts are left out."""
    manifest = version.manifest
    facts = [
        ("Reward", _reward_range(manifest.get("reward-range"))),
        ("Deterministic", _yes_or_no(manifest.get("deterministic"))),
        ("Sandbox", _text(manifest.get("sandbox"))),
        ("Secrets", ", ".join(_texts(manifest.get("secrets"))) or "none"),
        ("Python", version.requires_python or "any"),
        ("Wheel", "of one platform" if manifest.get("platform") is True else "pure Python"),
        ("License", _text(manifest.get("license"))),
        ("Authors", ", ".join(_texts(manifest.get("authors")))),
        ("Digest", f"sha256:{version.digest}"),
    ]
    return [(label, value) for label, value in facts if value]


def _yes_or_no(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else ""


def _reward_range(value: Any) -> str:
    if not isinstance(value, list) or len(value) != 2:
        return ""
    return " to ".join(f"{end:g}" for end in value if isinstance(end, int | float))


def _links(urls: Any) -> list[tuple[str, str]]:
    """Only addresses of the web: a link could also run a script."""
    given = urls.items() if isinstance(urls, dict) else []
    return [
        (str(label), url)
        for label, url in given
        if isinstance(url, str) and url.startswith(("https://", "http://"))
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
