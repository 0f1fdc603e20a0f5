"""`strop eval`: run a model on an environment and report, and what is done with the results."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli import eval_rescore, eval_view
from strop.cli.options import JsonOption, SetOption, examples, read_settings
from strop.cli.output import print_fields, print_result, progress_bar

if TYPE_CHECKING:
    from strop.environment import Environment
    from strop.evaluation import Report
    from strop.runner import RunPlan
    from strop.types import Model

app = typer.Typer(
    name="eval",
    help="Run a model on an environment and report its rewards.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(epilog=eval_rescore.EXAMPLES)(eval_rescore.rescore)
app.command(epilog=eval_view.EXAMPLES)(eval_view.view)

_SCRIPTED = "scripted:"


@app.callback()
def group() -> None:
    """Run a model on an environment and report its rewards."""


ModelOption = Annotated[
    str,
    typer.Option(
        "--model", help="scripted:oracle, :mixed, :random, :constant, :empty, or its name."
    ),
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint.")
]
KeyOption = Annotated[
    str, typer.Option("--api-key-env", metavar="NAME", help="The variable with its key.")
]
SplitOption = Annotated[str, typer.Option("--split", help="Which tasks.")]
TasksOption = Annotated[
    int | None, typer.Option("--tasks", "-n", min=1, help="How many tasks; else all.")
]
GroupOption = Annotated[int, typer.Option("--group-size", min=1, help="Attempts at each task.")]
ConcurrencyOption = Annotated[
    int, typer.Option("--concurrency", min=1, help="Attempts in flight at most.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="All seeds follow from it.")]
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
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Make only the attempts that --out misses.")
]


@app.command(
    epilog=examples(
        "strop eval run math-env --model scripted:oracle -n 20",
        "strop eval run ada/math-env@0.1.0 --set size=5 --group-size 4 --out results/math",
        "strop eval run math-env --model my-model --base-url http://127.0.0.1:8000/v1",
    )
)
def run(
    *,
    reference: Annotated[str, typer.Argument(metavar="NAME | OWNER/NAME[@VERSION]")],
    model: ModelOption = f"{_SCRIPTED}oracle",
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = "OPENAI_API_KEY",
    settings: SetOption = None,
    split: SplitOption = "eval",
    tasks: TasksOption = None,
    group_size: GroupOption = 1,
    concurrency: ConcurrencyOption = 64,
    seed: SeedOption = 0,
    temperature: TemperatureOption = None,
    max_tokens: MaxTokensOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    is_json: JsonOption = False,
) -> None:
    """Run a model on an installed environment; nothing is ever installed."""
    from strop.evaluation import TRAJECTORIES_NAME
    from strop.hub.load import load
    from strop.runner import RunPlan
    from strop.types import Sampling

    environment = load(reference, **read_settings(settings or ()))
    plan = RunPlan(
        split=_choose_split(environment, split),
        task_count=tasks,
        group_size=group_size,
        concurrency=concurrency,
        seed=seed,
        sampling=Sampling(temperature=temperature, max_tokens=max_tokens),
    )
    chosen = _choose_model(environment, model, base_url, api_key_env)
    report = _run_plan(environment, chosen, plan, out=out, is_resumed=resume)
    identity = environment.identity
    document = {
        "environment": identity.full_name,
        "version": identity.version,
        "digest": identity.digest,
        "state": identity.state,
        "model": chosen.name,
        "trajectories": str(out / TRAJECTORIES_NAME) if out else None,
        **report.to_json(),
    }
    print_result(document, is_json=is_json, show=lambda: _show(document, report))


def _run_plan(
    environment: "Environment",
    model: "Model",
    plan: "RunPlan",
    *,
    out: Path | None,
    is_resumed: bool,
) -> "Report":
    from strop.evaluation import evaluate
    from strop.sync import run_sync

    planned_count = (plan.task_count or 0) * plan.group_size
    made_count = 0

    with progress_bar("Attempts", show=str) as progress:

        def count(_: object) -> None:
            nonlocal made_count
            made_count += 1
            progress(made_count, max(planned_count, made_count))

        async def work() -> "Report":
            try:
                return await evaluate(
                    environment, model, plan, out=out, is_resumed=is_resumed, on_trajectory=count
                )
            finally:
                await model.close()

        return run_sync(work())


def _choose_split(environment: "Environment", wanted: str) -> str:
    # An environment with a single split needs none to be named.
    splits = list(environment.tasks)
    is_default = wanted == "eval" and wanted not in splits
    return splits[0] if is_default and len(splits) == 1 else wanted


def _choose_model(
    environment: "Environment", name: str, base_url: str | None, api_key_env: str
) -> "Model":
    from strop.errors import ConfigError
    from strop.models.openai import OpenAIModel
    from strop.testing import POLICIES, scripted_policy

    policy = name.removeprefix(_SCRIPTED)
    if name.startswith(_SCRIPTED) or (base_url is None and policy in POLICIES):
        return scripted_policy(policy, environment)
    if base_url is None and name.startswith(("http://", "https://")):
        base_url, _, name = name.rpartition("/")
    if base_url is None:
        raise ConfigError(
            f"Where is the model {name}? Give --base-url URL, "
            f"or one of {', '.join(_SCRIPTED + known for known in POLICIES)}."
        )
    return OpenAIModel(name, base_url, api_key=os.environ.get(api_key_env))


def _show(document: Mapping[str, Any], report: "Report") -> None:
    mean, error = report.mean_reward, report.standard_error
    shown = "none" if mean is None else f"{mean:.4g}" + ("" if error is None else f" ± {error:.2g}")
    print_fields(
        [
            ("environment", f"{document['environment']} {document['version']}"),
            ("state", document["state"]),
            ("model", document["model"]),
            ("reward", shown),
            *[(f"pass@{k}", f"{share:.4g}") for k, share in report.pass_at.items()],
            *[(name, f"{value:.4g}") for name, value in report.metrics.items()],
            ("attempts", f"{report.attempt_count}, {report.scored_count} scored"),
            ("truncated", report.truncated_count or None),
            ("failures", [f"{count} {kind}" for kind, count in report.failures.items()]),
            ("trajectories", document["trajectories"]),
        ]
    )
