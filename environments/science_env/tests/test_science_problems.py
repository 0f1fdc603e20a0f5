"""Problems that are made up, each with the quantity that it asks for."""

import math
import random
import re
from itertools import islice
from typing import Any, get_args

import pytest
from pint import UnitRegistry
from science_env import load_environment
from science_env.procedural import (
    LEVELS,
    Topic,
    answer_of,
    composition,
    document,
    make_problem,
    molar_mass,
)

from strop import ScriptedModel, Task
from strop.rewards import parse_quantity

KINDS = document()["kinds"]
NAMES = [kind["name"] for kind in KINDS]
REGISTRY: Any = UnitRegistry(autoconvert_offset_to_baseunit=True)

KNOWN: dict[str, tuple[dict[str, Any], float]] = {
    "acceleration": ({"u": 10, "a": 2, "t": 5}, 20),
    "braking": ({"u": 20, "a": 5}, 40),
    "free_fall": ({"y": 20, "a": 10}, 2),
    "projectile": ({"u": 9.81, "angle": math.pi / 4}, 9.81),
    "force": ({"m": 3, "a": 4}, 12),
    "kinetic_energy": ({"m": 2, "v": 3}, 9),
    "lifting_power": ({"m": 100, "y": 10, "t": 9.81}, 1000),
    "collision": ({"m": 1, "n": 3, "u": 8}, 2),
    "pendulum": ({"y": 5, "a": 5}, 2 * math.pi),
    "circular_motion": ({"m": 2, "v": 3, "r": 6}, 3),
    "buoyancy": ({"r": 0.1, "d": 1000}, 41.09),
    "hydrostatic_pressure": ({"y": 10, "d": 1000}, 98100),
    "resistance": ({"u": 12, "r": 6}, 2),
    "parallel": ({"u": 12, "r": 6, "q": 3}, 6),
    "divider": ({"u": 12, "r": 4, "q": 8}, 8),
    "capacitor_energy": ({"b": 1e-3, "u": 20}, 0.2),
    "charging": ({"b": 1e-3, "r": 1000, "u": 10, "t": 1}, 6.321),
    "coulomb": ({"p": 1e-6, "q": 2e-6, "r": 0.1}, 1.798),
    "wavelength": ({"f": 5.996e14, "n": 1.25}, 4e-7),
    "photon_energy": ({"n": 2, "w": 500e-9}, 478500),
    "thin_lens": ({"d": 0.3, "f": 0.1}, 0.15),
    "refraction": ({"angle": math.pi / 6, "n": 1.5}, 0.33984),
    "doppler": ({"f": 1000, "v": 34.3}, 1111.11),
    "heating": ({"m": 2, "rise": 10}, 83680),
    "mixing": ({"m": 1, "n": 1, "t": 300, "s": 340}, 320),
    "carnot": ({"s": 600, "t": 300}, 0.5),
    "expansion": ({"y": 100, "alpha": 1.2e-5, "rise": 50}, 0.06),
    "gas_pressure": ({"n": 1, "t": 300, "v": 0.0249}, 100169),
    "isochoric": ({"p": 1e5, "t": 300, "s": 600}, 2e5),
    "gas_volume": ({"m": 0.032, "x": "O2", "t": 273.15, "p": 101325}, 0.022413),
    "molar_mass": ({"n": 2, "x": "H2O"}, 0.03603),
    "amount": ({"m": 0.05844, "x": "NaCl"}, 1),
    "stoichiometry": (
        {"m": 0.004032, "reactant": "H2", "a": 2, "product": "H2O", "b": 2},
        0.03603,
    ),
    "limiting_reagent": (
        {"m": 0.028, "n": 0.1, "first": "N2", "i": 1, "second": "H2", "j": 3, "product": "NH3"}
        | {"b": 2},
        0.03404,
    ),
    "molarity": ({"m": 0.0585, "v": 0.0005, "x": "NaCl"}, 2002),
    "dilution": ({"v": 0.001, "a": 1000, "b": 100}, 0.01),
    "acidity": ({"a": 10}, 2),
    "bound_oxygen": ({"m": 0.018, "x": "H2O"}, 0.015985),
    "decay": ({"m": 8, "y": 10, "t": 30}, 1),
    "electrolysis": ({"i": 9.6485, "t": 20000, "x": "Cu", "z": 2}, 0.063546),
}
"""Each formula's value, in base units, as worked out on paper."""


def kind_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = KINDS[NAMES.index(name)]
    return found


def constants() -> dict[str, float]:
    quantities = {name: parse_quantity(text) for name, text in document()["constants"].items()}
    return {name: q.base_value for name, q in quantities.items() if q is not None}


def tasks_of(count: int = 200, **settings: Any) -> list[Task]:
    splits = load_environment(**settings).tasks.values()
    return [task for tasks in splits for task in islice(tasks, count)]


def test_there_are_many_kinds_and_each_was_worked_out_on_paper() -> None:
    assert len(set(NAMES)) == len(KINDS) >= 30
    assert set(KNOWN) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_formula_gives_what_was_worked_out_on_paper(name: str) -> None:
    values, expected = KNOWN[name]
    found = answer_of(kind_of(name)["answer"], constants() | values)
    assert found == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_formula_has_the_dimension_of_its_unit(name: str) -> None:
    kind = kind_of(name)
    values: dict[str, Any] = {
        key: REGISTRY(re.sub(r"(?<=[0-9]) (?=[A-Z1a-z])", " * ", text.replace("^", "**")))
        for key, text in document()["constants"].items()
    }
    for key, given in kind["given"].items():
        if isinstance(given, list):
            values |= given[0] if isinstance(given[0], dict) else {key: given[0]}
            continue
        bounds, _, names = given.partition(" ")
        unit = names.split(",")[0].strip()
        number = float(bounds.split("..")[1])
        values[key] = REGISTRY.Quantity(number, unit).to_base_units()
    if name == "acidity":  # the logarithm of a concentration in mol/L
        values["a"] = values["a"].magnitude
    functions = {
        "sqrt": lambda q: q**0.5,
        "molar_mass": lambda x: REGISTRY.Quantity(molar_mass(x), "kg/mol"),
        "sin": lambda q: math.sin(q.to("rad").magnitude),
        "asin": lambda q: REGISTRY.Quantity(math.asin(float(q)), "rad"),
        "exp": lambda q: math.exp(q.to("").magnitude),
    }
    found = REGISTRY.Quantity(1, "") * answer_of(kind["answer"], values | functions)
    wanted = REGISTRY.Quantity(1, kind["unit"] or "").to_base_units()
    assert found.to_base_units().dimensionality == wanted.dimensionality


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_of_a_text_give_its_reference(name: str) -> None:
    kind = kind_of(name)
    for seed in range(20):
        text, reference = make_problem(kind, random.Random(seed), is_mixed=True)
        wanted = parse_quantity(reference)
        assert wanted is not None
        pattern = re.escape(kind["text"])
        for placeholder in dict.fromkeys(re.findall(r"\\{(\w+)\\}", pattern)):
            pattern = pattern.replace(rf"\{{{placeholder}\}}", rf"(?P<{placeholder}>.+?)", 1)
        found = re.fullmatch(re.sub(r"\\{\w+\\}", ".+?", pattern), text)
        assert found is not None, text
        values: dict[str, Any] = constants()
        for key, given in kind["given"].items():
            if isinstance(given, str):
                shown = parse_quantity(found[key])
                assert shown is not None, found[key]
                values[key] = shown.base_value
            elif isinstance(given[0], str):
                values[key] = found[key]
            else:
                entries = [
                    e
                    for e in given
                    if all(found[k] == str(e[k]) for k in e if k in found.re.groupindex)
                ]
                values |= entries[0]
        unit = wanted.unit
        value = (answer_of(kind["answer"], values) - unit.offset) / unit.factor
        assert value == pytest.approx(wanted.value, rel=1e-5)


def test_formulas_are_counted_with_their_groups() -> None:
    assert composition("Al2(SO4)3") == {"Al": 2, "S": 3, "O": 12}
    assert composition("CH3COOH") == {"C": 2, "H": 4, "O": 2}
    assert molar_mass("Ca(OH)2") == pytest.approx(0.074092)


@pytest.mark.parametrize("kind", ["stoichiometry", "limiting_reagent"])
def test_every_equation_is_balanced(kind: str) -> None:
    for entry in kind_of(kind)["given"]["reaction"]:
        left, right = entry["equation"].split(" -> ")
        sides = []
        for side in (left, right):
            counts: dict[str, int] = {}
            for term in side.split(" + "):
                factor, formula = re.fullmatch(r"(?:([0-9]+) )?(\S+)", term).groups()  # type: ignore[union-attr]
                for element, count in composition(formula).items():
                    counts[element] = counts.get(element, 0) + count * int(factor or 1)
            sides.append(counts)
        assert sides[0] == sides[1], entry["equation"]
        for name, factor in (("reactant", "a"), ("product", "b"), ("first", "i"), ("second", "j")):
            if name in entry:
                told = f"{entry[factor]} " if entry[factor] > 1 else ""
                assert f"{told}{entry[name]}" in re.split(r" \+ | -> ", entry["equation"])


@pytest.mark.parametrize("topic", [topic for topic in get_args(Topic) if topic != "mixed"])
@pytest.mark.parametrize("level", LEVELS)
def test_every_topic_has_problems_at_every_level(topic: Topic, level: int) -> None:
    for task in tasks_of(20, topic=topic, level=level):
        kind = kind_of(str(task.metadata["kind"]))
        assert kind["topic"] == topic
        assert kind["level"] <= level


def test_the_mixture_takes_all_kinds_of_a_level_in_turn() -> None:
    found = [task.metadata["kind"] for task in islice(load_environment(level=3).tasks["train"], 40)]
    assert found == NAMES


def test_the_first_level_shows_one_unit_each_and_the_others_mix_them() -> None:
    first, second = (
        "\n".join(task.prompt[0].text for task in tasks_of(level=level)) for level in (1, 2)
    )
    assert "km/h" not in first
    assert "degC" not in first
    assert "km/h" in second
    assert "degC" in second


@pytest.mark.parametrize("level", LEVELS)
def test_the_splits_never_share_a_problem(level: int) -> None:
    splits = load_environment(level=level).tasks
    train = {task.prompt for task in islice(splits["train"], 300)}
    assert train.isdisjoint({task.prompt for task in splits["eval"]})


def test_another_seed_gives_other_problems() -> None:
    first, second = (load_environment(seed=seed).tasks["train"][0].prompt for seed in (0, 1))
    assert first != second


@pytest.mark.parametrize("level", [0, 4, -1])
def test_a_level_that_does_not_exist_is_refused(level: int) -> None:
    with pytest.raises(ValueError, match="Choose 1 to 3"):
        load_environment(level=level)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{{{value} {unit}}}", 1),
        (r"so v = \boxed{{v = {value}\,\text{{{unit}}}}}.", 1),
        (r"\boxed{{{off} {unit}}}", 0),
        (r"\boxed{{{value}}}", 0),
        (r"\boxed{{{value} kg^3}}", 0),
        (r"\boxed{{-{value} {unit}}}", 0),
        (r"{value} {unit}", 0),
        (r"\boxed{{{value} {unit}}} or \boxed{{{off} {unit}}}", 0),
        (r"\boxed{{{value} {unit} or {off} {unit}}}", 0),
        (r"\boxed{{{value} {unit}, {off} {unit}, 3 {unit}}}", 0),
        (r"\boxed{{{value} {off} {unit}}}", 0),
        (r"\boxed{{", 0),
        ("", 0),
    ],
)
async def test_the_value_and_its_unit_are_wanted_and_no_other(text: str, expected: float) -> None:
    environment = load_environment(level=3)
    async with environment:
        for task in islice(environment.tasks["train"], 40):
            reference = parse_quantity(str(task.reference))
            assert reference is not None
            unit = str(task.reference).partition(" ")[2]
            if not unit and text == r"\boxed{{{value}}}":
                continue  # it has no unit to leave out
            answer = text.format(
                value=f"{reference.value:.8e}",
                off=f"{reference.value * 1.03:e}",
                unit=unit,
            )
            trajectory = await environment.rollout(task, ScriptedModel.constant(answer))
            assert (task.key, trajectory.reward) == (task.key, expected)


@pytest.mark.parametrize(("tolerance", "expected"), [(0.01, 0), (0.05, 1), (0, 0)])
async def test_the_tolerance_is_a_setting(tolerance: float, expected: float) -> None:
    environment = load_environment(tolerance=tolerance)
    async with environment:
        task = environment.tasks["train"][0]
        reference = parse_quantity(str(task.reference))
        assert reference is not None
        answer = rf"\boxed{{{reference.value * 1.03} m/s}}"
        trajectory = await environment.rollout(task, ScriptedModel.constant(answer))
        assert trajectory.reward == expected


@pytest.mark.parametrize("tolerance", [-0.1, 1, float("nan")])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance is"):
        load_environment(tolerance=tolerance)
