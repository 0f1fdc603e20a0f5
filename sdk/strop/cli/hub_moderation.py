"""`strop hub quarantine | purge`: stop what does harm, on the hub's own machine."""

from typing import Annotated

import typer

from strop.cli.hub_data import DataOption, hub_code, read_settings
from strop.cli.options import JsonOption
from strop.cli.output import print_result, print_text

ReferenceArgument = Annotated[str, typer.Argument(metavar="OWNER/NAME[@VERSION]")]
app = typer.Typer()


@app.command(
    epilog="\b\nExamples:\n"
    '  strop hub quarantine ada/maze@0.2.0 --reason "leaky grader" --data ./hub\n'
    "  strop hub quarantine ada/maze@0.2.0 --undo --data ./hub"
)
def quarantine(
    reference: ReferenceArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown to all.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let it be used again.")] = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Stop an environment, or one version of it, from being resolved and served.

    A hub that runs over the same data follows within a second.
    """
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    if not undo and not reason:
        raise typer.BadParameter("a quarantine needs a --reason, which its users are told.")
    with hub_code():
        from strop_hub.admin import open_hub
        from strop_hub.releases import operator

        with open_hub(read_settings(data)) as hub:
            status = operator.quarantine(hub, ref, reason, undo=undo)
    document = {"reference": str(ref), "status": status, "reason": reason or None}
    print_result(document, is_json=json, show=lambda: print_text(f"{ref} is {status}"))


@app.command(
    epilog="\b\nExample:\n"
    '  strop hub purge ada/maze@0.2.0 --reason "a private key got in" --yes --data ./hub'
)
def purge(
    reference: ReferenceArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept for ever.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Erase a version, or all of an environment's: bytes, metadata and pages.

    The number stays spent, mirrors are told, and a restored backup is purged again.
    """
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    if not yes:
        typer.confirm(f"Erase {ref} for ever?", abort=True, err=True)
    with hub_code():
        from strop_hub.admin import open_hub
        from strop_hub.releases import operator

        with open_hub(read_settings(data)) as hub:
            records = operator.purge(hub, ref, reason)
    document = [
        {"owner": one.owner, "name": one.name, "version": one.version, "blobs": len(one.sha256s)}
        for one in records
    ]
    names = ", ".join(f"{one.owner}/{one.name}@{one.version}" for one in records)
    print_result(document, is_json=json, show=lambda: print_text(f"Purged {names}"))
