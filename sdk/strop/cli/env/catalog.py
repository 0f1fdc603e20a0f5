"""`strop env list | info | versions`: what is on a hub."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from strop.cli.env.check_fields import report_fields
from strop.cli.env.group import app
from strop.cli.options import HubOption, JsonOption, TokenOption, examples, open_hub
from strop.cli.output import (
    dump,
    format_size,
    print_fields,
    print_message,
    print_result,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from strop.hub.wire import EnvironmentDetail, VersionDetail

ReferenceArgument = Annotated[str, typer.Argument(metavar="OWNER/NAME")]


@app.command(
    "list",
    epilog=examples(
        "strop env list",
        "strop env list maths --category math --limit 20",
        "strop env list --owner ada --json",
    ),
)
def list_environments(
    *,
    query: Annotated[str, typer.Argument(metavar="[TEXT]", help="Words to search for.")] = "",
    owner: Annotated[str | None, typer.Option("--owner", help="Only this owner's.")] = None,
    category: Annotated[str | None, typer.Option("--category", help="Only of this one.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most so many; else all.")
    ] = None,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """List the environments of the hub, or those that a search finds."""
    with open_hub(hub, token) as client:
        pages = client.environments(query, owner=owner, category=category, tag=tag)
        found = list(islice(pages, limit))

    def show() -> None:
        if not found:
            print_text("No environment was found.")
            return
        rows = [
            (
                f"{item.owner}/{item.name}",
                item.latest_version or "-",
                item.category,
                "private" if item.is_private else "",
                item.summary,
            )
            for item in found
        ]
        print_table(["environment", "latest", "category", "", "summary"], rows)

    print_result({"items": [dump(item) for item in found]}, is_json=is_json, show=show)


@app.command(epilog=examples("strop env info ada/math-env", "strop env info ada/math-env@0.1.0"))
def info(
    reference: Annotated[str, typer.Argument(metavar="OWNER/NAME[@VERSION]")],
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Show an environment, or one of its versions when the reference names one."""
    from strop.hub.push import resolve_one
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    with open_hub(hub, token) as client:
        if ref.selector is None:
            detail = client.environment(ref.owner, ref.name)
            page = client.page_url(ref.owner, ref.name)
            print_result(dump(detail), is_json=is_json, show=lambda: _show_detail(detail, page))
            return
        chosen = resolve_one(client, reference)
        version = client.version(chosen.owner, chosen.name, chosen.version)
    print_result(dump(version), is_json=is_json, show=lambda: _show_version(version))


@app.command(epilog=examples("strop env versions ada/math-env"))
def versions(
    reference: ReferenceArgument,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """List an environment's versions, newest first."""
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    with open_hub(hub, token) as client:
        found = list(client.versions(ref.owner, ref.name))
    rows = [
        (
            item.version,
            f"{item.published_at:%Y-%m-%d}",
            f"sha256:{item.digest[:12]}",
            format_size(item.size_bytes),
            f"yanked: {item.yank_reason or 'no reason given'}" if item.is_yanked else "",
        )
        for item in found
    ]
    headings = ["version", "published", "digest", "size", ""]
    print_result(
        {"items": [dump(item) for item in found]},
        is_json=is_json,
        show=lambda: print_table(headings, rows),
    )


def _show_detail(detail: "EnvironmentDetail", page: str) -> None:
    print_fields(
        [
            ("environment", f"{detail.owner}/{detail.name}"),
            ("summary", detail.summary),
            ("category", detail.category),
            ("tags", detail.tags),
            ("visible to", "its owner" if detail.is_private else "everybody"),
            ("page", page),
        ]
    )
    if detail.latest is not None:
        _show_version(detail.latest)
    else:
        print_message(
            "No version can be chosen without naming it: all are yanked, pre-releases or not "
            f"complete. `strop env versions {detail.owner}/{detail.name}` lists them."
        )


def _show_version(version: "VersionDetail") -> None:
    settings = (version.settings_schema or {}).get("properties", {})
    print_fields(
        [
            ("version", version.version),
            ("yanked", (version.yank_reason or "yes") if version.is_yanked else None),
            ("digest", f"sha256:{version.digest}"),
            ("published", f"{version.published_at:%Y-%m-%d %H:%M} UTC by {version.published_by}"),
            ("python", version.requires_python),
            ("settings", list(settings)),
            *report_fields(version.check),
            ("files", [f"{file.filename} ({file.kind})" for file in version.files]),
            ("install", f"strop env install {version.owner}/{version.name}@{version.version}"),
        ]
    )
