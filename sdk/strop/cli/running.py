"""Make the run that flags or a file describe (step: rollout)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop.cli.output import print_message
from strop.cli.run_models import open_models
from strop.cli.run_progress import RunProgress

if TYPE_CHECKING:
    from strop.environment import Environment
    from strop.evaluation import Report
    from strop.run_file import RunFile
    from strop.runner import RunPlan
    from strop.types import Model

RUN_NAME = "run.json"
REPORT_NAME = "report.json"


def make_run(run: "RunFile", *, is_resumed: bool) -> dict[str, Any]:
    """Make it, keep its files, and give the document that is printed.

    Raises:
        ConfigError: The model cannot be found, or the folder holds another run.
    """
    from strop.evaluation import TRAJECTORIES_NAME

    environment = open_environment(run)
    models = open_models(run, environment)
    out = None if run.run.out is None else Path(run.run.out)
    record = _describe(run, environment)
    if out is not None:
        _keep_record(out, record, is_resumed=is_resumed)
    report = _evaluate(run, environment, models, is_resumed=is_resumed)
    _tell_unknown_judges(run, report)
    document = {
        **record["environments"][0],
        "environments": record["environments"],
        "model": run.model.name,
        "trajectories": str(out / TRAJECTORIES_NAME) if out else None,
        "cost": run.cost(report.seat_usage, report.source_usage),
        "seat_costs": run.seat_costs(report.seat_usage),
        "judge_costs": run.judge_costs(report.source_usage),
        "report": report.to_json(),
    }
    if out is not None:
        _write(out / REPORT_NAME, document)
    return document


def open_environment(run: "RunFile") -> "Environment":
    """The environment of a run; a mixture where it names several."""
    from strop.hub.load import load
    from strop.mixture import Mixture

    loaded = [load(choice.ref, **choice.settings) for choice in run.environments]
    if len(loaded) == 1:
        return loaded[0]
    named = {environment.identity.name: environment for environment in loaded}
    if len(named) < len(loaded):
        named = {str(number): environment for number, environment in enumerate(loaded)}
    weights = [choice.weight for choice in run.environments]
    return Mixture(named, dict(zip(named, weights, strict=True)), seed=run.run.seed)


def _evaluate(
    run: "RunFile", environment: "Environment", models: "dict[str, Model]", *, is_resumed: bool
) -> "Report":
    from strop.evaluation import evaluate
    from strop.sync import run_sync

    plan = run.plan(list(environment.tasks))
    _tell_shortage(plan, environment)
    tasks = plan.task_count if plan.keys is None else len(plan.keys)
    planned_count = None if tasks is None else tasks * plan.group_size

    async def work(progress: RunProgress) -> "Report":
        try:
            return await evaluate(
                environment,
                models[""] if len(models) == 1 else _Seats(models),
                plan,
                out=None if run.run.out is None else Path(run.run.out),
                has_fsync=run.run.fsync,
                has_reference=run.run.references,
                is_resumed=is_resumed,
                on_trajectory=progress.add,
                on_finished=progress.add_finished,
            )
        finally:
            for model in models.values():
                await model.close()

    with RunProgress(planned_count, run.cost) as progress:
        return run_sync(work(progress))


def _tell_shortage(plan: "RunPlan", environment: "Environment") -> None:
    tasks = environment.tasks.get(plan.split)
    if tasks is None or plan.keys is not None or plan.task_count is None or tasks.is_infinite:
        return
    try:
        left_count = max(0, len(tasks) - plan.skip_count)
    except TypeError:
        return
    if left_count < plan.task_count:
        after = f" after the first {plan.skip_count}" if plan.skip_count else ""
        print_message(
            f"The split {plan.split!r} has {left_count} tasks{after}: {plan.task_count} were "
            "asked for, all of them are run."
        )


def _tell_unknown_judges(run: "RunFile", report: "Report") -> None:
    # Only now, for an episode or a reward may ask under any name.
    asked = {source.removeprefix("judge:") for source in report.source_usage}
    unknown = sorted(set(run.judges) - asked)
    if unknown:
        print_message(
            f"The cost lacks judges: the run prices {', '.join(unknown)}, of which no tokens are "
            f"known. Those known are of {', '.join(sorted(asked)) or 'no judge'}. Correct the "
            "names in [judges]."
        )


class _Seats(dict[str, Any]):
    """Models by seat, in which every other seat has the main model."""

    def __missing__(self, seat: str) -> Any:
        return self[""]

    def __contains__(self, seat: object) -> bool:
        """Every seat has a model."""
        return True


def _describe(run: "RunFile", environment: "Environment") -> dict[str, Any]:
    parts = getattr(environment, "environments", {"": environment})
    return {
        "run": run.to_json(),
        "environments": [
            {
                "environment": part.identity.full_name,
                "version": part.identity.version,
                "digest": part.identity.digest,
                "state": part.identity.state,
            }
            for part in parts.values()
        ],
    }


def _keep_record(out: Path, record: dict[str, Any], *, is_resumed: bool) -> None:
    path = out / RUN_NAME
    if is_resumed and path.exists():
        _check_same(path, record)
        return
    if not (out.exists() and any(out.iterdir())):
        _write(path, record)


def _check_same(path: Path, record: dict[str, Any]) -> None:
    from strop.errors import ConfigError

    earlier = json.loads(path.read_text(encoding="utf-8"))
    old, new = _decisive(earlier), _decisive(record)
    changed = sorted(name for name in old if old[name] != new.get(name))
    if changed:
        raise ConfigError(
            f"{path.parent} holds a run with another {', another '.join(changed)}. Resume it with "
            "what it began with, or choose another --out."
        )


def _decisive(record: dict[str, Any]) -> dict[str, Any]:
    """What every attempt of a run depends on."""
    run = record["run"]
    chosen = [(each["ref"].partition("@")[0], each["settings"]) for each in run["environments"]]
    return {
        "environment": json.loads(json.dumps(chosen)),
        "digest": [each["digest"] for each in record["environments"]],
        "model": _asked(run["model"]),
        "model of a seat": {seat: _asked(choice) for seat, choice in run["seats"].items()},
        "sampling": run["sampling"],
        "seed": run["run"]["seed"],
        "split": run["run"]["split"],
        "group size": run["run"]["group_size"],
    }


def _asked(choice: dict[str, Any]) -> list[Any]:
    """What decides what a model says; records of earlier versions lack some of it."""
    return [choice["name"], choice.get("api", "chat"), choice.get("body", {})]


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
