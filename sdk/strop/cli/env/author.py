"""`strop env init | check | build`: what an author does before sharing."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strop.cli.env.check_fields import cost_fields
from strop.cli.env.group import app
from strop.cli.options import HubOption, JsonOption, TokenOption, examples, open_hub
from strop.cli.output import (
    format_size,
    print_fields,
    print_message,
    print_result,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strop.testing import CheckReport

FolderArgument = Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Has pyproject.toml.")]
IsolationOption = Annotated[
    bool,
    typer.Option("--no-isolation", help="Build with the backend that is installed beside strop."),
]


class Template(StrEnum):
    """What `strop env init` starts from."""

    SINGLE_TURN = "single-turn"
    TOOLS = "tools"


@app.command(
    epilog=examples(
        "strop env init word-count --summary 'Count the words of a text'",
        "strop env init treasure-hunt --template tools --folder environments/treasure_hunt",
    )
)
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the environment.")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="PATH", help="A new one; else named after the environment."
        ),
    ] = None,
    template: Annotated[
        Template, typer.Option("--template", help="What to start from.")
    ] = Template.SINGLE_TURN,
    summary: Annotated[
        str | None, typer.Option("--summary", help="What a model learns, in one line.")
    ] = None,
    is_json: JsonOption = False,
) -> None:
    """Write a new environment that passes its check, builds and can be pushed."""
    from strop.scaffold import write_scaffold

    written = write_scaffold(name, folder, template.value, summary=summary)
    document = {
        "name": written.name,
        "folder": str(written.folder),
        "files": [str(path) for path in written.files],
    }

    def show() -> None:
        print_text(f"Wrote {written.name} to {written.folder}:")
        for path in written.files:
            print_text(f"  {path}")
        print_text(f"Next: pip install -e {written.folder} && strop env check {written.folder}")

    print_result(document, is_json=is_json, show=show)


@app.command(
    epilog=examples(
        "strop env check",
        "strop env check environments/math_env --extra hf --json",
        "strop env check --publish --owner my-team",
    )
)
def check(
    *,
    folder: FolderArgument = Path(),
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--extra", metavar="NAME", help="Weigh this extra's dependencies too; can be repeated."
        ),
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Show the result on the page of the pushed version.")
    ] = False,
    owner: Annotated[
        str | None, typer.Option("--owner", help="With --publish: whose; else the token's user's.")
    ] = None,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Check the manifest, load the environment and try its tasks, tools and rewards."""
    published = None
    if not publish:
        report = _checked(folder, extra or ())
    else:
        from strop.hub.check import find_pushed, publish_check
        from strop.hub.push import choose_owner

        with open_hub(hub, token) as client:
            # Before the check, which takes its time.
            pushed = find_pushed(client, choose_owner(client, owner), folder)
        checked_at = datetime.now(UTC)
        report = _checked(folder, extra or ())
        with open_hub(hub, token) as client:
            publish_check(client, pushed, report, checked_at)
        published = str(pushed.ref)
    _show_check(folder, report, is_json=is_json, published=published)
    if not report.is_ok:
        raise typer.Exit(1)


@app.command(epilog=examples("strop env build", "strop env build environments/math_env --out dist"))
def build(
    folder: FolderArgument = Path(),
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="Where the wheel goes.")
    ] = Path("dist"),
    no_isolation: IsolationOption = False,
    is_json: JsonOption = False,
) -> None:
    """Build the wheel with its manifest, as a push does; nothing is sent."""
    from strop.hub.archive import check_wheel
    from strop.hub.download import sha256_of
    from strop.hub.package import build_wheel

    print_message(f"Building {folder}")
    out.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel(folder, out, isolated=not no_isolation)
    facts = check_wheel(wheel)
    document = {
        "name": facts.name,
        "version": facts.version,
        "wheel": str(wheel),
        "digest": sha256_of(wheel),
        "size_bytes": wheel.stat().st_size,
    }

    def show() -> None:
        print_fields(
            [
                ("environment", f"{facts.name} {facts.version}"),
                ("wheel", wheel),
                ("digest", f"sha256:{document['digest']}"),
                ("size", format_size(wheel.stat().st_size)),
            ]
        )

    print_result(document, is_json=is_json, show=show)


def _checked(folder: Path, extras: "Sequence[str]") -> "CheckReport":
    from strop.hub.manifest import read_project, read_requirements
    from strop.testing import check_project

    manifest = read_project(folder)
    requirements = read_requirements(folder, extras)
    print_message(f"Checking {manifest.name}")
    # It imports the author's code in processes of its own.
    return check_project(
        folder,
        str(manifest.entry_point),
        is_deterministic=manifest.deterministic,
        reward_range=manifest.reward_range,
        summary=manifest.summary,
        requirements=requirements,
    )


def _show_check(
    folder: Path, report: "CheckReport", *, is_json: bool, published: str | None = None
) -> None:
    from strop.hub.manifest import read_project

    manifest = read_project(folder)
    document = {
        "name": manifest.name,
        "version": manifest.version,
        "published": published,
        **report.to_json(),
    }

    def show() -> None:
        print_table(
            ["verdict", "check", "what"],
            [(found.verdict, found.check, found.message) for found in report.findings],
        )
        print_fields(cost_fields(report.measures))
        print_text("The check passed." if report.is_ok else "The check failed.")
        if published is not None:
            print_text(f"The page of {published} shows it.")

    print_result(document, is_json=is_json, show=show)
