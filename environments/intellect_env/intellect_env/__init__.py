"""Six environments as one: their tasks drawn by weight, each played and paid by its own."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import strop
from strop.errors import EnvironmentLoadError

NAMES = {
    "math": "math-env",
    "code": "code-env",
    "science": "science-env",
    "logic": "logic-env",
    "deep_research": "deep-research-env",
    "swe": "swe-env",
}
"""The environments, by the word that stands before their tasks' keys."""


def load_environment(
    weights: dict[str, float] | None = None,
    settings: dict[str, dict[str, Any]] | None = None,
    seed: int = 0,
) -> strop.Mixture:
    """The environment.

    Args:
        weights: How often ``math``, ``code``, ``science``, ``logic``, ``deep_research`` and
            ``swe`` are drawn, relative to each other; one that is not named or 0 is not loaded.
            None draws each as often as the others.
        settings: Of the single environments, such as ``{"math": {"level": 2}}``.
        seed: Another seed draws in another order.
    """
    chosen = {
        name: weight for name, weight in (weights or dict.fromkeys(NAMES, 1.0)).items() if weight
    }
    unknown = sorted({*chosen, *(settings or ())} - set(NAMES))
    if unknown or not chosen:
        raise ValueError(
            f"weights or settings name {unknown}, of a mixture of {sorted(chosen)}. "
            f"Choose among {', '.join(NAMES)}, and give one of them a weight above 0."
        )
    loaded = {name: _load(NAMES[name], (settings or {}).get(name, {})) for name in chosen}
    return strop.Mixture(loaded, chosen, seed=seed)


def _load(name: str, settings: Mapping[str, Any]) -> strop.Environment:
    try:
        return strop.load(name, **settings)
    except EnvironmentLoadError:
        # Beside it on the import path, as in a checkout; what is missing or broken says so.
        module = import_module(name.replace("-", "_"))
    environment: strop.Environment = module.load_environment(**settings)
    environment.identity = replace(environment.identity, name=name)
    return environment
