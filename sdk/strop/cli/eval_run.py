"""`strop eval run`: run a model on environments, from flags or from a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from strop.cli.model_options import (
    AffinityOption,
    ApiOption,
    BaseUrlOption,
    BodyOption,
    CaOption,
    CertOption,
    EngineOption,
    HeaderOption,
    KeyFileOption,
    KeyOption,
    ModelOption,
    ProxyOption,
    StreamOption,
    TokenizerOption,
    TriesOption,
    read_model_options,
)
from strop.cli.options import JsonOption, SetOption, examples, read_settings
from strop.cli.output import print_fields, print_message, print_result
from strop.cli.termination import terminated_cleanly

EXAMPLES = examples(
    "strop eval run math-env --model scripted:oracle -n 20",
    "strop eval run ada/math-env@0.1.0 --set size=5 --group-size 4 --out results/math",
    "strop eval run math-env --model my-model --base-url http://127.0.0.1:8000/v1",
    "strop eval run math-env --model claude --base-url https://api.anthropic.com --api messages",
    "strop eval run --config run.toml run.seed=3 model.name=other",
)

ReferenceArgument = Annotated[
    str | None, typer.Argument(metavar="NAME | OWNER/NAME[@VERSION]", help="What to run.")
]
OverridesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Put over the run file: run.seed=3."),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A run file (TOML).")
]
SplitOption = Annotated[
    str | None, typer.Option("--split", help="Which tasks; else eval, or the only split.")
]
TasksOption = Annotated[
    int | None, typer.Option("--tasks", "-n", min=1, help="How many tasks; else all.")
]
SkipOption = Annotated[
    int | None, typer.Option("--skip", min=0, help="Tasks passed over before the first one.")
]
TaskOption = Annotated[
    list[str] | None,
    typer.Option("--task", metavar="KEY", help="Only this task; can be repeated."),
]
GroupOption = Annotated[
    int | None, typer.Option("--group-size", min=1, help="Attempts at each task; else 1.")
]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", min=1, help="Attempts in flight at most; else 64.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="All seeds follow from it; else 0.")]
TemperatureOption = Annotated[
    float | None, typer.Option("--temperature", min=0, help="Else the model's default.")
]
MaxTokensOption = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="Of one completion.")
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FOLDER", help="For trajectories.jsonl; else none are kept."),
]
FsyncOption = Annotated[
    bool, typer.Option("--fsync", help="Each trajectory on the disk before the next one.")
]
NoReferencesOption = Annotated[
    bool, typer.Option("--no-references", help="Keep the tasks' references out of the file.")
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Make only the attempts that --out misses.")
]


def run(
    context: typer.Context,
    *,
    reference: ReferenceArgument = None,
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    api: ApiOption = None,
    api_key_env: KeyOption = None,
    engine: EngineOption = None,
    tokenizer: TokenizerOption = None,
    stream: StreamOption = False,
    header: HeaderOption = None,
    body: BodyOption = None,
    affinity_header: AffinityOption = None,
    tries: TriesOption = None,
    proxy: ProxyOption = None,
    ca_file: CaOption = None,
    cert_file: CertOption = None,
    key_file: KeyFileOption = None,
    settings: SetOption = None,
    split: SplitOption = None,
    tasks: TasksOption = None,
    skip: SkipOption = None,
    task: TaskOption = None,
    group_size: GroupOption = None,
    concurrency: ConcurrencyOption = None,
    seed: SeedOption = None,
    temperature: TemperatureOption = None,
    max_tokens: MaxTokensOption = None,
    out: OutOption = None,
    fsync: FsyncOption = False,
    no_references: NoReferencesOption = False,
    resume: ResumeOption = False,
    is_json: JsonOption = False,
) -> None:
    """Run a model on installed environments; nothing is ever installed."""
    if config is not None and reference is not None:
        # With a file, the first argument is an override like the others.
        overrides, reference = [reference, *(overrides or [])], None
    # By their names, which are those of the tables' fields but for a few.
    flags = _tables(context.params)
    chosen = _choose(config, reference, settings, overrides or [], flags)
    document = _make(chosen, is_resumed=resume)
    print_result(_flat(document), is_json=is_json, show=lambda: _show(document))


def _tables(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of a run file that the options mean, by the command's parameters."""
    run_names = ("split", "tasks", "skip", "group_size", "concurrency", "seed")
    return {
        "model": read_model_options(options),
        "sampling": {name: options[name] for name in ("temperature", "max_tokens")},
        "run": {
            **{name: options[name] for name in run_names},
            "keys": list(options["task"] or ()) or None,
            "out": None if options["out"] is None else str(options["out"]),
            "fsync": options["fsync"] or None,
            "references": False if options["no_references"] else None,
        },
    }


def _make(chosen: Any, *, is_resumed: bool) -> dict[str, Any]:
    from strop.cli.running import make_run

    with terminated_cleanly():
        try:
            return make_run(chosen, is_resumed=is_resumed)
        except KeyboardInterrupt:
            if chosen.run.out is not None:
                print_message(f"Finished attempts are in {chosen.run.out}. Go on with --resume.")
            raise


def _choose(
    config: Path | None,
    reference: str | None,
    settings: list[str] | None,
    overrides: list[str],
    flags: Mapping[str, Mapping[str, Any]],
) -> Any:
    import tomllib

    from strop.run_file import RunFile

    document: dict[str, Any] = {}
    if config is not None:
        RunFile.read(config)
        document = tomllib.loads(config.read_text(encoding="utf-8"))
    elif reference is None:
        raise typer.BadParameter("Name an environment, or give --config FILE.")
    else:
        document["environments"] = [{"ref": reference, "settings": {}}]
    for each in document["environments"]:
        each["settings"] = {**each.get("settings", {}), **read_settings(settings or ())}
    for table, values in flags.items():
        document[table] = _put_over(document.get(table, {}), values)
    return RunFile.parse(document, overrides, where=str(config or reference))


def _put_over(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A table with the values that were given, and in its tables those of theirs."""
    merged = dict(table)
    for name, value in values.items():
        if isinstance(value, Mapping):
            value = _put_over(merged.get(name, {}), value)
        if value is not None:
            merged[name] = value
    return merged


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in document.items() if name != "report"}
    return {**rest, **document["report"]}


def _show(document: Mapping[str, Any]) -> None:
    report = document["report"]
    mean, error = report["mean_reward"], report["standard_error"]
    shown = "none" if mean is None else f"{mean:.4g}" + ("" if error is None else f" ± {error:.2g}")
    parts = [(name, _mean(part)) for name, part in report["environments"].items()]
    names = [f"{e['environment']} {e['version']}" for e in document["environments"]]
    print_fields(
        [
            ("environment", names),
            ("state", [each["state"] for each in document["environments"]]),
            ("model", document["model"]),
            ("reward", shown),
            *parts,
            *[(f"pass@{k}", f"{share:.4g}") for k, share in report["pass_at"].items()],
            *[(name, f"{value:.4g}") for name, value in report["metrics"].items()],
            ("attempts", f"{report['attempt_count']}, {report['scored_count']} scored"),
            ("truncated", report["truncated_count"] or None),
            *[(f"{kind} replies", count) for kind, count in report["odd_replies"].items()],
            ("failures", [f"{count} {kind}" for kind, count in report["failures"].items()]),
            *[(f"  {count} times", cause) for cause, count in report["causes"].items()],
            ("judges' tokens", sum(report["outside_usage"].values()) or None),
            ("cost", None if document["cost"] is None else f"{document['cost']:.2f}"),
            *_costs(document["seat_costs"], document["judge_costs"]),
            ("trajectories", document["trajectories"]),
        ]
    )


def _costs(seats: Mapping[str, float], judges: Mapping[str, float]) -> list[tuple[str, str]]:
    if len(seats) < 2 and not judges:
        return []
    costs = [*seats.items(), *judges.items()]
    return [(f"  {name}", f"{cost:.2f}") for name, cost in costs]


def _mean(report: Mapping[str, Any]) -> str:
    mean = report["mean_reward"]
    return "none" if mean is None else f"{mean:.4g} over {report['scored_count']}"
