"""`strop hub quarantine | purge | claim | quota`: the operator's word on what owners have."""

import re
from dataclasses import asdict
from typing import Annotated

import typer

from strop.cli.hub_data import DataOption, hub_code, read_settings
from strop.cli.options import JsonOption
from strop.cli.output import print_fields, print_result, print_text

_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SIZE = re.compile(r"(\d{1,12})\s*(B|KiB|MiB|GiB|TiB)?")
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


@app.command(epilog="\b\nExample:\n  strop hub claim ada/maze --data ./hub")
def claim(
    reference: Annotated[str, typer.Argument(metavar="OWNER/NAME")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Let plain installers find an environment by its name alone, on /simple/.

    A name belongs to whoever published it first; this moves it.
    """
    from strop.hub.refs import EnvRef

    ref = EnvRef.parse(reference)
    with hub_code():
        from strop_hub.admin import open_hub
        from strop_hub.releases import operator

        with open_hub(read_settings(data)) as hub:
            former = operator.claim(hub, ref)
    told = f"/simple/{ref.name}/ is {ref.full_name}" + (f", no longer {former}" if former else "")
    document = {"name": ref.name, "environment": ref.full_name, "former": former}
    print_result(document, is_json=json, show=lambda: print_text(told))


@app.command(
    epilog="\b\nExamples:\n"
    "  strop hub quota lab --data ./hub\n"
    "  strop hub quota lab --size 50GiB --data ./hub\n"
    "  strop hub quota lab --default --data ./hub"
)
def quota(
    owner: Annotated[str, typer.Argument(help="A user's or an organisation's name.")],
    size: Annotated[
        str | None, typer.Option("--size", metavar="SIZE", help="Such as 500MiB, 50GiB or bytes.")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="As much as everybody.")] = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show how much an owner keeps and may keep; with --size, let it keep more or less."""
    if size is not None and default:
        raise typer.BadParameter("--size and --default contradict each other.")
    quota_bytes = None if size is None else _bytes(size)
    with hub_code():
        from strop_hub import admin

        settings = read_settings(data)
        if size is not None or default:
            line = admin.quota_set(settings, owner, quota_bytes)
        else:
            line = admin.space_show(settings, owner)
    quota_text = _shown(line.quota_bytes) + (" (everybody's)" if line.is_default else "")
    fields = [
        ("owner", line.owner),
        ("keeps", _shown(line.stored_bytes)),
        ("may keep", quota_text),
    ]
    print_result(asdict(line), is_json=json, show=lambda: print_fields(fields))


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size. Write 500MiB, 50GiB or bytes.")
    return int(match[1]) * _UNITS[match[2] or "B"]


def _shown(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:,.1f} MiB"
