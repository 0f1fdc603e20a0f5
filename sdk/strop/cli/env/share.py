"""`strop env push | pull | yank`: what an author does with a hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.env.author import FolderArgument, IsolationOption
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
    print_warning,
    progress_bar,
)

if TYPE_CHECKING:
    from strop.hub.client import HubClient
    from strop.hub.push import PushPlan
    from strop.hub.wire import PushResult


@app.command(
    epilog=examples(
        "strop env push",
        "strop env push environments/math_env --owner my-team",
        "strop env push --dry-run",
        "strop env push --private --allow-secret tests/fixture_key.pem",
    )
)
def push(
    *,
    folder: FolderArgument = Path(),
    owner: Annotated[
        str | None, typer.Option("--owner", help="As whom; else as the token's user.")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Hide a new environment from others.")
    ] = False,
    allow_secret: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-secret",
            metavar="PATH",
            help="Ship this file although it looks like a secret; can be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be shipped, and stop.")
    ] = False,
    no_isolation: IsolationOption = False,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Build an environment and publish it on the hub; the same push again changes nothing."""
    from strop.hub.push import choose_owner, plan_push
    from strop.hub.push import push as publish
    from strop.testing.project import is_placeholder

    plan = plan_push(folder, allowed_secrets=allow_secret or (), is_isolated=not no_isolation)
    if is_placeholder(plan.manifest.summary):
        print_warning("The summary is the template's. Say in `description` what a model learns.")
    if dry_run:
        _show_plan(plan, is_json)
        return
    with open_hub(hub, token) as client:
        as_owner = choose_owner(client, owner)
        print_message(f"{len(plan.members)} files, {format_size(plan.size_bytes)}:")
        for member in plan.members:
            print_message(f"  {member.path}  {format_size(member.size_bytes)}")
        with progress_bar("Uploading") as progress:
            result = publish(
                client,
                as_owner,
                plan,
                visibility="private" if private else None,
                announce=print_message,
                progress=progress,
            )
        _show_push(client, result, is_json)


@app.command(
    epilog=examples("strop env pull ada/math-env", "strop env pull ada/math-env@0.1.0 ./math")
)
def pull(
    reference: Annotated[str, typer.Argument(metavar="OWNER/NAME[@VERSION]")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Absent or empty; else ./NAME.")
    ] = None,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Get the tree that the author pushed, exactly."""
    from strop.hub.push import pull as fetch

    with open_hub(hub, token) as client, progress_bar("Downloading") as progress:
        version, target = fetch(client, reference, folder, progress)
    document = {
        "owner": version.owner,
        "name": version.name,
        "version": version.version,
        "digest": version.digest,
        "folder": str(target),
    }
    name = f"{version.owner}/{version.name}@{version.version}"
    print_result(document, is_json=is_json, show=lambda: print_text(f"{name} is in {target}"))
    for warning in version.warnings:
        print_warning(warning)


@app.command(
    epilog=examples(
        'strop env yank ada/math-env@0.1.0 --reason "the grader accepts empty answers"',
        "strop env yank ada/math-env@0.1.0 --undo",
    )
)
def yank(
    *,
    reference: Annotated[str, typer.Argument(metavar="OWNER/NAME@VERSION")],
    reason: Annotated[str, typer.Option("--reason", help="Shown to those who ask for it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let it be chosen again.")] = False,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Take a version out of what is chosen without being named; nothing is deleted."""
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    if ref.version is None:
        raise typer.BadParameter(f"{reference} names no exact version; write OWNER/NAME@VERSION.")
    with open_hub(hub, token) as client:
        version = client.yank(ref.owner, ref.name, str(ref.version), reason=reason, undo=undo)
    state = "yanked" if version.is_yanked else "not yanked"
    print_result(dump(version), is_json=is_json, show=lambda: print_text(f"{ref} is {state}"))


def _show_plan(plan: "PushPlan", is_json: bool) -> None:
    document = {
        "name": plan.manifest.name,
        "version": plan.manifest.version,
        "tree_digest": plan.tree_digest,
        "size_bytes": plan.size_bytes,
        "files": [{"path": m.path, "size_bytes": m.size_bytes} for m in plan.members],
    }

    def show() -> None:
        rows = [(member.path, format_size(member.size_bytes)) for member in plan.members]
        print_table(["file", "size"], rows)
        print_fields(
            [
                ("environment", f"{plan.manifest.name} {plan.manifest.version}"),
                ("files", f"{len(rows)}, {format_size(plan.size_bytes)}"),
                ("tree digest", plan.tree_digest),
            ]
        )
        print_text("Nothing was sent.")

    print_result(document, is_json=is_json, show=show)


def _show_push(client: "HubClient", result: "PushResult", is_json: bool) -> None:
    version = result.version
    name = f"{version.owner}/{version.name}@{version.version}"
    page = client.page_url(version.owner, version.name)
    command = f"strop env install {name}"
    document: dict[str, Any] = dump(result) | {"url": page, "install": command}

    def show() -> None:
        is_new = result.outcome == "published"
        print_text(f"Published {name}" if is_new else f"{name} is already published")
        print_fields([("digest", f"sha256:{version.digest}"), ("page", page), ("install", command)])
        if version.check is None:
            print_message("Its page says that it is not checked: run `strop env check --publish`.")

    print_result(document, is_json=is_json, show=show)
    for warning in result.warnings:
        print_warning(warning)
