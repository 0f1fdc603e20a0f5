"""Look after a hub: verify, collect, back up, restore, export, import, mirror, migrate."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strop.cli.hub_data import DataOption, hub_code, read_settings
from strop.cli.options import JsonOption
from strop.cli.output import print_message, print_result

if TYPE_CHECKING:
    from strop_hub.hub import Hub
    from strop_hub.upkeep.dump import Backup

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The backup's folder.")]


def add_upkeep(app: typer.Typer) -> None:
    """Add the commands to the group `hub`."""
    app.command(epilog="\b\nExample:\n  strop hub migrate --data ./hub")(migrate)
    app.command(epilog="\b\nExample:\n  strop hub verify --data ./hub")(verify)
    app.command("gc", epilog="\b\nExample:\n  strop hub gc --grace-hours 24 --data ./hub")(collect)
    app.command(epilog="\b\nExample:\n  strop hub backup ./backup --data ./hub")(backup)
    app.command(epilog="\b\nExample:\n  strop hub restore ./backup --data ./new-hub")(restore)
    app.command("export", epilog="\b\nExample:\n  strop hub export ./moved --data ./hub")(
        export_hub
    )
    app.command("import", epilog="\b\nExample:\n  strop hub import ./moved --data ./new-hub")(
        import_hub
    )
    app.command(
        "mirror",
        epilog="\b\nExample:\n  strop hub mirror https://hub.example --as far"
        "\n  strop hub mirror https://index.example/simple/ --simple --as lab --project maze",
    )(mirror_hub)


def migrate(data: DataOption = None, json: JsonOption = False) -> None:
    """Bring the database to this version's schema; `serve` does it too."""
    from strop_hub import migration

    with _opened(data):
        revision = migration.latest_revision()
    show = f"The database has the schema {revision}."
    print_result({"revision": revision}, is_json=json, show=lambda: print_message(show))


def verify(data: DataOption = None, json: JsonOption = False) -> None:
    """Read every blob again and compare every row with it; 1 when something differs."""
    with _opened(data, is_made=True) as hub:
        from strop_hub.upkeep.verify import verify as verify_hub

        report = verify_hub(hub)

    def show() -> None:
        for difference in report.differences:
            print_message(f"{difference.subject}: {difference.detail}")
        print_message(
            f"{len(report.differences)} differences; {report.version_count} versions, "
            f"{report.blob_count} blobs, {report.read_bytes} bytes read, "
            f"{report.orphan_count} orphans"
        )

    print_result(asdict(report), is_json=json, show=show)
    if report.differences:
        raise typer.Exit(1)


def collect(
    data: DataOption = None,
    grace_hours: Annotated[
        float, typer.Option("--grace-hours", min=0, help="How old an orphan must be.")
    ] = 24,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove blobs that nothing names; the hub may serve meanwhile."""
    with _opened(data, is_made=True) as hub:
        from strop_hub.upkeep.collect import collect as collect_orphans

        result = collect_orphans(hub, grace_s=grace_hours * 3600, is_trial=dry_run)
    verb = "Would remove" if dry_run else "Removed"
    show = (
        f"{verb} {result.removed_count} orphans ({result.removed_bytes} bytes); "
        f"{result.kept_count} are young or in use."
    )
    print_result(asdict(result), is_json=json, show=lambda: print_message(show))


def backup(folder: FolderArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Copy a hub into a folder while it serves; again into the same folder copies what is new."""
    _write_out(folder, data, "Backed up", is_json=json)


def _write_out(folder: Path, data: Path | None, done: str, *, is_json: bool) -> None:
    with _opened(data, is_made=True) as hub:
        from strop_hub.upkeep.dump import back_up

        result = back_up(hub, folder)
    _show(result, f"{done} into {folder}", is_json=is_json)


def restore(
    folder: FolderArgument,
    purged_from: Annotated[
        Path | None,
        typer.Option("--purged-from", metavar="DIR", help="The hub's former --data folder."),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Make a hub of a backup; --data must be empty.

    What was purged after the backup was made does not come back, where --data or --purged-from
    has the log of purges, purges.jsonl.
    """
    _read_in(folder, data, "Restored", purged_from, is_json=json)


def _read_in(
    folder: Path, data: Path | None, done: str, purged_from: Path | None, *, is_json: bool
) -> None:
    with _opened(data) as hub:
        from strop_hub.upkeep.dump import restore as restore_hub

        result = restore_hub(hub, folder, purged_from=purged_from)
    for record in result.purged:
        print_message(f"{record.owner}/{record.name}@{record.version} was purged, and stays away.")
    _show(result.backup, f"{done} from {folder}", is_json=is_json)


def export_hub(folder: FolderArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Write a hub in the form that every database and store can import."""
    _write_out(folder, data, "Exported", is_json=json)


def import_hub(folder: FolderArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Fill an empty hub, on whatever database and store, from an export."""
    _read_in(folder, data, "Imported", None, is_json=json)


def mirror_hub(
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="The other hub.")],
    prefix: Annotated[
        str, typer.Option("--as", metavar="PREFIX", help="Owners here are named PREFIX-OWNER.")
    ] = "mirror",
    simple: Annotated[
        bool, typer.Option("--simple", help="URL is any simple index; PREFIX is the owner here.")
    ] = False,
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="NAME", help="Of --simple only these; repeatable."),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Take over what was published elsewhere since the last run; repeat it to keep up."""
    if simple:
        _mirror_index(url, prefix, project or [], data, json)
        return
    with _opened(data) as hub:
        from strop_hub.upkeep.mirror import mirror

        result = mirror(hub, url.rstrip("/"), prefix)

    def show() -> None:
        for line in result.skipped:
            print_message(f"skipped {line}")
        for line in result.attestations_left_out:
            print_message(f"left out the attestations of {line}")
        print_message(f"Followed {result.followed_count} events, up to serial {result.serial}.")

    print_result(asdict(result), is_json=json, show=show)


def _mirror_index(
    url: str, owner: str, projects: list[str], data: Path | None, is_json: bool
) -> None:
    with _opened(data) as hub:
        from strop_hub.upkeep.index_mirror import mirror_index

        result = mirror_index(hub, url, owner, projects)

    def show() -> None:
        for line in result.skipped:
            print_message(f"skipped {line}")
        print_message(
            f"{result.published_count} files are new, {result.yanked_count} yanks changed, "
            f"{result.unchanged_count} pages are as they were."
        )

    print_result(asdict(result), is_json=is_json, show=show)


@contextmanager
def _opened(data: Path | None, *, is_made: bool = False) -> Iterator["Hub"]:
    with hub_code():
        from strop_hub.admin import check_made, open_hub

        settings = read_settings(data)
    if is_made:
        check_made(settings)
    with open_hub(settings) as hub:
        yield hub


def _show(result: "Backup", act: str, *, is_json: bool) -> None:
    rows = sum(result.row_counts.values())
    text = f"{act}: {rows} rows, {result.blob_count} blobs, {result.copied_count} of them new."
    print_result(asdict(result), is_json=is_json, show=lambda: print_message(text))
