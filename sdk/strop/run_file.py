"""What to run, as a TOML file: parsed without network, secrets or any environment's code."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from strop.errors import ConfigError
from strop.model_choice import ModelChoice, Prices, Strict
from strop.runner import RunPlan
from strop.types import Sampling, Usage


class EnvironmentChoice(Strict):
    """One environment of a run."""

    ref: str
    """A name, or ``owner/name[@…]``; resolved when the run starts."""
    weight: float = Field(default=1.0, ge=0)
    """How often it is drawn, relative to the others."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """For its `load_environment`."""


class SamplingChoice(Strict):
    """How to sample; what is missing is the engine's default."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: list[str] = Field(default_factory=list)
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request's body."""


class RunChoice(Strict):
    """Which attempts, and how many at once."""

    split: str | None = None
    """None: ``eval``, or the only one that there is."""
    tasks: int | None = Field(default=None, ge=0)
    skip: int = Field(default=0, ge=0)
    """Tasks passed over before the first one."""
    keys: list[str] | None = None
    group_size: int = Field(default=1, ge=1)
    concurrency: int = Field(default=64, ge=1)
    seed: int = 0
    max_failure_share: float = Field(default=0.2, ge=0, le=1)
    token_budget: int | None = Field(default=None, ge=1)
    """Sampled and prompt tokens after which no further attempt begins."""
    out: str | None = None
    """A folder for the trajectories."""
    fsync: bool = False
    """Whether each trajectory is on the disk before the next one."""
    references: bool = True
    """Whether trajectories hold the tasks' references."""


class RunFile(Strict):
    """A whole run. Every field has a default except the environments."""

    environments: list[EnvironmentChoice] = Field(min_length=1)
    model: ModelChoice = ModelChoice()
    seats: dict[str, ModelChoice] = Field(default_factory=dict)
    """Models of further seats by name; `model` plays the rest."""
    judges: dict[str, Prices] = Field(default_factory=dict)
    """What the tokens of the environment's judges cost, by their names."""
    sampling: SamplingChoice = SamplingChoice()
    run: RunChoice = RunChoice()

    @model_validator(mode="after")
    def _check_stops(self) -> Self:
        choices = {"model": self.model} | {f"seats.{name}": c for name, c in self.seats.items()}
        places = [place for place, choice in choices.items() if choice.api == "responses"]
        if self.sampling.stop and places:
            raise PydanticCustomError(
                "strop_stop",
                "the API of {places}, responses, takes no stop sequences: leave sampling.stop out,"
                " or choose another api",
                {"places": ", ".join(places)},
            )
        return self

    @classmethod
    def read(cls, path: Path, overrides: Iterable[str] = ()) -> Self:
        """Read a file and put ``key.path=value`` overrides over it; values are TOML or text.

        Raises:
            ConfigError: The file is missing, no TOML, or has unknown or wrong fields: all named.
        """
        try:
            with path.open("rb") as file:
                document = tomllib.load(file)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path} is no TOML: {error}.") from error
        return cls.parse(document, overrides, where=str(path))

    @classmethod
    def parse(
        cls, document: dict[str, Any], overrides: Iterable[str] = (), *, where: str = "the run"
    ) -> Self:
        """Check a document and its overrides, as `read` does."""
        document = copy.deepcopy(document)
        for override in overrides:
            _put(document, override)
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            problems = "".join(
                f"\n  - {'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
                for each in error.errors(include_url=False)
            )
            raise ConfigError(f"{where} is no run:{problems}") from error

    def cost(self, usage: Mapping[str, Usage], outside_usage: Mapping[str, Usage]) -> float | None:
        """What the tokens of all seats and judges cost; None where no model has a price.

        Args:
            usage: By seat. What a model without a price takes costs nothing.
            outside_usage: By source, as `judge_costs` takes it.
        """
        priced = (self.model, *self.seats.values(), *self.judges.values())
        if all(each.cost(Usage()) is None for each in priced):
            return None
        costs = self.seat_costs(usage), self.judge_costs(outside_usage)
        return math.fsum(cost for each in costs for cost in each.values())

    def seat_costs(self, usage: Mapping[str, Usage]) -> dict[str, float]:
        """What each seat's tokens cost at the prices of its own model, where that has one.

        Args:
            usage: By seat.
        """
        costs = {seat: self.seats.get(seat, self.model).cost(took) for seat, took in usage.items()}
        return _known(costs)

    def judge_costs(self, outside_usage: Mapping[str, Usage]) -> dict[str, float]:
        """What each judge's tokens cost, where `judges` has its prices; by source.

        Args:
            outside_usage: By source, such as ``judge:helpful``.
        """
        unpriced = Prices()
        costs = {
            source: self.judges.get(source.removeprefix("judge:"), unpriced).cost(took)
            for source, took in outside_usage.items()
        }
        return _known(costs)

    def to_json(self) -> dict[str, Any]:
        """The run as JSON, which `parse` reads back equal."""
        return self.model_dump(mode="json")

    def plan(self, splits: Sequence[str]) -> RunPlan:
        """The attempts as the runner takes them.

        Args:
            splits: Those that the environment has.
        """
        run, sampling = self.run, self.sampling
        only = splits[0] if len(splits) == 1 else "eval"
        return RunPlan(
            split=run.split or ("eval" if "eval" in splits else only),
            task_count=run.tasks,
            skip_count=run.skip,
            keys=None if run.keys is None else tuple(run.keys),
            group_size=run.group_size,
            concurrency=run.concurrency,
            seed=run.seed,
            sampling=Sampling(
                sampling.temperature,
                sampling.top_p,
                sampling.max_tokens,
                tuple(sampling.stop),
                extra=sampling.extra,
            ),
            max_failure_share=run.max_failure_share,
            token_budget=run.token_budget,
        )


def _known(costs: Mapping[str, float | None]) -> dict[str, float]:
    return {name: cost for name, cost in costs.items() if cost is not None}


def _put(document: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"{override!r} is no override. Write KEY.PATH=VALUE: run.seed=3.")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text
    place: Any = document
    for key in keys[:-1]:
        place = _enter(place, key, override)
    _assign(place, keys[-1], value, override)


def _enter(place: Any, key: str, override: str) -> Any:
    if isinstance(place, list) and key.isdecimal() and int(key) < len(place):
        return place[int(key)]
    if isinstance(place, dict):
        return place.setdefault(key, {})
    raise ConfigError(f"{override!r} leads nowhere: there is no {key!r} in the run.")


def _assign(place: Any, key: str, value: Any, override: str) -> None:
    if not isinstance(place, dict):
        raise ConfigError(f"{override!r} leads nowhere: {key!r} stands in no table.")
    place[key] = value
