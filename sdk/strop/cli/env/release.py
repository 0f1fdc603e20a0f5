"""`strop env deprecate | archive | close | tag | delete | transfer`: after a push."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.env.group import app
from strop.cli.options import HubOption, JsonOption, TokenOption, examples, open_hub
from strop.cli.output import dump, print_result, print_table, print_text

if TYPE_CHECKING:
    from strop.hub.refs import EnvRef

EnvironmentArgument = Annotated[str, typer.Argument(metavar="OWNER/NAME")]
VersionArgument = Annotated[str, typer.Argument(metavar="OWNER/NAME@VERSION")]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Shown to those who use it.")
]
UndoOption = Annotated[bool, typer.Option("--undo", help="Make it active again.")]


@app.command(
    epilog=examples(
        'strop env deprecate ada/maze --reason "use ada/labyrinth"',
        "strop env deprecate ada/maze --undo",
    )
)
def deprecate(
    *,
    reference: EnvironmentArgument,
    reason: ReasonOption = "",
    undo: UndoOption = False,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Warn everybody who resolves an environment; it is served and extended as before."""
    _set_status(reference, "active" if undo else "deprecated", reason, (hub, token), is_json)


@app.command(
    epilog=examples(
        'strop env archive ada/maze --reason "finished"', "strop env archive ada/maze --undo"
    )
)
def archive(
    *,
    reference: EnvironmentArgument,
    reason: ReasonOption = "",
    undo: UndoOption = False,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Close an environment for new versions; what is there is served as before."""
    _set_status(reference, "active" if undo else "archived", reason, (hub, token), is_json)


@app.command(epilog=examples("strop env close ada/maze@0.1.0"))
def close(
    *,
    reference: VersionArgument,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Let a version take no further file, for ever; time does the same after some days."""
    from strop.hub import release

    ref = _version_ref(reference)
    with open_hub(hub, token) as client:
        version = release.close(client, ref)
    print_result(dump(version), is_json=is_json, show=lambda: print_text(f"{ref} is closed"))


@app.command(
    epilog=examples(
        "strop env tag ada/maze@0.1.0 stable",
        "strop env tag ada/maze",
        "strop env tag ada/maze@stable",
        "strop env tag ada/maze stable --delete",
    )
)
def tag(
    *,
    reference: Annotated[str, typer.Argument(metavar="OWNER/NAME[@VERSION|@TAG]")],
    name: Annotated[str | None, typer.Argument(metavar="[TAG]")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Take the tag away.")] = False,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Point a tag to a version; without TAG list the tags, or where the one named has pointed."""
    from strop.hub import release
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    if name is not None and not delete:
        ref = _version_ref(reference)
    if delete and name is None:
        raise typer.BadParameter("--delete needs a TAG to take away.")
    with open_hub(hub, token) as client:
        if name is None:
            found = release.tags(client, ref)
        elif delete:
            found = release.remove_tag(client, ref, name)
        else:
            found = release.set_tag(client, ref, name)
    rows = [
        (one.tag, one.version or "-", f"{one.moved_at:%Y-%m-%d %H:%M}", one.moved_by)
        for one in found.items
    ]
    print_result(
        dump(found),
        is_json=is_json,
        show=lambda: print_table(["tag", "version", "since", "by"], rows),
    )


@app.command(
    epilog=examples(
        "strop env delete ada/maze@0.1.0 --yes", "strop env delete ada/maze --yes --json"
    )
)
def delete(
    *,
    reference: Annotated[str, typer.Argument(metavar="OWNER/NAME[@VERSION]")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Delete a version, or all of an environment's; the numbers are never used again.

    To keep others from choosing a version, `strop env yank` is enough.
    """
    from strop.hub import release
    from strop.hub.refs import EnvRef

    ref = _version_ref(reference) if "@" in reference else EnvRef.parse(reference)
    what = f"{ref}" if ref.version else f"every version of {ref}"
    if not yes:
        typer.confirm(f"Delete {what} for ever?", abort=True, err=True)
    with open_hub(hub, token) as client:
        release.delete(client, ref)
    document = {"owner": ref.owner, "name": ref.name, "version": ref.selector, "deleted": True}
    print_result(document, is_json=is_json, show=lambda: print_text(f"{what} is deleted"))


@app.command(epilog=examples("strop env transfer ada/maze my-team"))
def transfer(
    *,
    reference: EnvironmentArgument,
    owner: Annotated[str, typer.Argument(metavar="NEW_OWNER")],
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Give an environment to another owner of yours; its former name leads to the new one."""
    from strop.hub import release
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    if ref.selector is not None:
        raise typer.BadParameter(f"{reference} names a version; write OWNER/NAME.")
    with open_hub(hub, token) as client:
        environment = release.transfer(client, ref, owner)
    name = f"{environment.owner}/{environment.name}"
    print_result(
        dump(environment), is_json=is_json, show=lambda: print_text(f"{ref} is now {name}")
    )


def _set_status(
    reference: str, status: str, reason: str, access: tuple[Any, Any], is_json: bool
) -> None:
    from strop.hub import release
    from strop.hub.refs import EnvRef
    from strop.hub.wire import EnvironmentStatus

    ref = EnvRef.parse(reference)
    if ref.selector is not None:
        raise typer.BadParameter(f"{reference} names a version; write OWNER/NAME.")
    with open_hub(*access) as client:
        environment = release.set_status(client, ref, EnvironmentStatus(status), reason)
    print_result(
        dump(environment),
        is_json=is_json,
        show=lambda: print_text(f"{ref} is {environment.status}"),
    )


def _version_ref(reference: str) -> "EnvRef":
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    if ref.version is None:
        raise typer.BadParameter(f"{reference} names no exact version; write OWNER/NAME@VERSION.")
    return ref
