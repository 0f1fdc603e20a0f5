"""`strop env install | uninstall`: into this interpreter or another."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from strop.cli.env.group import app
from strop.cli.options import (
    HubOption,
    JsonOption,
    PythonOption,
    TokenOption,
    examples,
    open_hub,
)
from strop.cli.output import print_message, print_result, print_text, print_warning, progress_bar


class InstallerChoice(StrEnum):
    """What installs."""

    PIP = "pip"
    UV = "uv"


InstallerOption = Annotated[
    InstallerChoice | None,
    typer.Option("--with", help="What installs; else pip, or uv where there is no pip."),
]
_SAID = {
    "installed": "Installed {}",
    "reinstalled": "Reinstalled {}",
    "adopted": "{} was there already, without its record; now it has one",
    "already_installed": "{} is already installed",
}


@app.command(
    epilog=examples(
        "strop env install ada/math-env",
        'strop env install "ada/math-env@~=0.1" ada/maze@1.2.0',
        "strop env install ada/math-env --python .venv --with uv",
    )
)
def install(
    *,
    references: Annotated[list[str], typer.Argument(metavar="OWNER/NAME[@VERSION]...")],
    python: PythonOption = None,
    installer: InstallerOption = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace an editable package, or one of the name that others installed.",
        ),
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Let other installed packages change their version.")
    ] = False,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Install environments from the hub, from files whose digest was checked."""
    from strop.hub.install import InstallOptions
    from strop.hub.install import install as install_from

    options = InstallOptions(python, installer.value if installer else None, replace, upgrade)
    with open_hub(hub, token) as client, progress_bar("Downloading") as progress:
        report = install_from(
            client, references, options, announce=print_message, progress=progress
        )

    def show() -> None:
        for one in report.environments:
            name = f"{one.owner}/{one.name}@{one.version} (sha256:{one.digest[:12]})"
            print_text(_SAID[one.outcome].format(name))
        if report.sdk is not None:
            print_text(f"Installed strop {report.sdk}, which {report.python} lacked")

    print_result(asdict(report), is_json=is_json, show=show)
    for warning in report.warnings:
        print_warning(warning)


@app.command(
    epilog=examples(
        "strop env uninstall math-env", "strop env uninstall ada/math-env --python .venv"
    )
)
def uninstall(
    name: Annotated[str, typer.Argument(metavar="NAME | OWNER/NAME")],
    python: PythonOption = None,
    installer: InstallerOption = None,
    is_json: JsonOption = False,
) -> None:
    """Remove an installed environment; what it depended on stays."""
    from strop.hub.install import InstallOptions
    from strop.hub.install import uninstall as remove

    record = remove(name, InstallOptions(python, installer.value if installer else None))
    what = record.reference if record else name
    document = {"name": name, "removed": asdict(record) if record else None}
    print_result(document, is_json=is_json, show=lambda: print_text(f"Uninstalled {what}"))
