"""Numbers with units as they are written, and their equality."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.rewards import parse_quantity, parse_unit, plain_text, quantity
from strop.types import JSON
from tests.sdk.rewards.conftest import Score

SAME = [
    ("12.5 m/s", "12.5 m/s"),
    ("12.5 m/s", "12.5 m s^-1"),
    ("12.5 m/s", "12.5 m s⁻¹"),
    ("12.5 m/s", "12.5 m·s⁻¹"),
    ("12.5 m/s", "12.5 m per second"),
    ("12.5 m/s", "45 km/h"),
    ("12.5 m/s", "12.5\\,\\text{m/s}"),
    ("12.5 m/s", "1.25 \\times 10^{1}\\ \\mathrm{m\\,s^{-1}}"),
    ("12.5 m/s", "1.25\u00d710¹ m/s"),
    ("12.5 m/s", "12.5 \\frac{\\text{m}}{\\text{s}}"),
    ("12.5 m/s", "v = 12.5 m/s"),
    ("12.5 m/s", "≈ 12.5 meters/second."),
    ("12.5 m/s", "$12.5\\;m/s$"),
    ("1200 kg", "1,200 kg"),
    ("1200 kg", "1{,}200 kg"),
    ("1200 kg", "1.2e3 kg"),
    ("1200 kg", "1.2 * 10^3 kg"),
    ("1200 kg", "1.2 t"),
    ("-3 m", "\u22123 m"),
    ("9.81 m/s^2", "9.81 m/s2"),
    ("9.81 m/s^2", "9.81 m/s**2"),
    ("9.81 m/s^2", "9.81 m/s/s"),
    ("9.81 m/s^2", "9.81 N/kg"),
    ("4184 J/(kg K)", "4.184 kJ/(kg·°C)"),
    ("4184 J/(kg K)", "4184 J kg^-1 K^-1"),
    ("25 °C", "298.15 K"),
    ("25 °C", "77 °F"),
    ("25 °C", "25^\\circ\\text{C}"),
    ("25 °C", "25 degrees Celsius"),
    ("25 °C", "25 deg C"),
    ("25 °C", "25 degC"),
    ("25 °C", "77 degrees Fahrenheit"),
    ("0.001 mol", "10^{-3} mol"),
    ("0.001 mol", "10⁻³ mol"),
    ("0.5 m", "1/2 m"),
    ("0.5 m", "\\frac{1}{2} m"),
    ("30 degree", "30°"),
    ("30 degree", "30^\\circ"),
    ("30 degree", "0.523599 rad"),
    ("4700 ohm", "4.7 kΩ"),
    ("4700 ohm", "4.7 k\\Omega"),
    ("4700 ohm", "4.7 k\u2126"),
    ("5e-6 m", "5 µm"),
    ("5e-6 m", "5 μm"),
    ("5e-6 m", "5\\,\\mu m"),
    ("0.35", "35%"),
    ("0.35", "35\\%"),
    ("2 ampere", "2 amps"),
    ("5 N", "5 Newtons"),
    ("0.2 mol/L", "0.2 M"),
    ("0.2 mol/L", "0.2 mol dm^-3"),
    ("1 atm L", "101.325 J"),
    ("50 Hz", "50 1/s"),
    ("2 N m", "2 Nm"),
    ("2 N m", "0.002 kNm"),
    ("2 N m", "2 N-m"),
    ("2 N m", "2 N\u2013m"),
    ("2 N m", "2\\,\\text{Nm}"),
    ("2 N m^2/kg^2", "2 Nm\u00b2/kg\u00b2"),
    ("2 N s", "2 Ns"),
    ("2 Pa s", "2 Pas"),
    ("2 ohm m", "2 Ωm"),
    ("2 ohm m", "2 Ohm m"),
    ("5 kg m/s", "5 kg·m/s"),
    ("5 kg m/s", "5 kgm/s"),
    ("4184 J/(kg K)", "4.184 J/g°C"),
    ("4184 J/(kg K)", "4.184 J/(g °C)"),
    ("4184 J/(kg K)", "4.184 J/g·°C"),
    ("4184 J/(kg K)", "4.184 J/(g^\\circ C)"),
    ("4184 J/(kg K)", "4.184 J/g·K"),
    ("4184 J/(kg K)", "4.184 J/gK"),
    ("4184 J/(kg K)", "4184 J/kg K^-1"),
    ("8.314 J/(mol K)", "8.314 J/mol·K"),
    ("8.314 J/(mol K)", "8.314 J/(molK)"),
    ("8.314 J/(mol K)", "8.314 J/mol-K"),
    ("5 W/(m^2 K)", "5 W/m²K"),
    ("2 m^2 K/W", "2 m²·K/W"),
    ("50000 J/mol", "50 kJ/mol"),
    ("24 L/mol", "24 L/mol"),
    ("9.81 m/s^2", "9.81 m/s²"),
    ("25 °C", "25 \u2103"),
    ("25 °C", "25 ° C"),
]

WRONG = [
    ("12.5 m/s", "12.5"),
    ("12.5 m/s", "12.5 m"),
    ("12.5 m/s", "12.5 km/h"),
    ("12.5 m/s", "12.5 m/s^2"),
    ("12.5 m/s", "12.5 ms^-1"),
    ("12.5 m/s", "-12.5 m/s"),
    ("12.5 m/s", "12.7 m/s"),
    ("30 degree", "30"),
    ("30 degree", "30 rad"),
    ("0.5236", "30 degree"),
    ("50 Hz", "50 rad/s"),
    ("25 °C", "25 K"),
    ("10 K", "10 °C"),
    ("0.35", "35"),
    ("1 J", "1 W"),
    ("2 N m", "2 N/m"),
    ("2 N m", "2 mN"),
    ("2 N", "2 Nm"),
    ("2 Pa", "2 Pas"),
    ("2 m s", "2 ms"),
    ("4184 J/(kg K)", "4.184 J/g"),
    ("4184 J/(kg K)", "4.184 J·K/g"),
    ("4184 J/(kg K)", "4.184 J/kg°C"),
    ("5 W/(m K)", "5 W/mK"),
    ("2 K m", "2 K/m"),
    ("25 °C", "298.15 °C"),
]

UNREADABLE = [
    "",
    "m",
    "twelve m",
    "12 or 13 m",
    "12 m or 13 m",
    "12 m, 13 m",
    "11-13 m",
    "6 + 6 m",
    "2*6 m",
    "12 m 13 m",
    "12 m = 13 m = 14 m",
    "1,2 m",
    "3 dB",
    "nan m",
    "inf m",
    "1 m/",
    "1 m//s",
    "1 ((m))",
    "1 (m",
    "1 m)",
    "1 m(m(m))",
    "1 m^2.5",
    "1 m^99",
    "1 m**9**9",
    "1 m^0",
    "1 m_s",
    "1 m-",
    "1 N--m",
    "1 NM",
    "1 gm°C",
    "1 C°",
    "1 speed_of_light",
    "1 __import__('os')",
    "1 flurbs",
    "1/0 m",
    "1/2/3 m",
    "10^10^10 m",
    "10^9999 m",
    "1 " + "m " * 9,
    "10**10**10 m",
    "9**9**9**9 m",
    "1e999999999 m",
    "1e999 m",
    "1 " + "m" * 100_000,
    "1 " + "(" * 100_000,
    "9" * 100_000 + " m",
    "1 " + "{" * 100_000,
    "1 " + "\\frac{m}{" * 50_000,
    "1 " + "kilo" * 30 + "m",
]

ALIKE = [
    "\uff11\uff12 m",
    "\u0661\u0662 m",
    "12 \u043c",
    "12 \uff4d",
    "1\u200b2 m",
    "12 \u217f",
    "12 \u212a",
    "12\u066b5 m",
]


@pytest.mark.parametrize(("reference", "answer"), SAME)
async def test_an_equivalent_quantity_is_right(score: Score, reference: str, answer: str) -> None:
    trajectory = await score(quantity(tolerance=1e-4), f"It is \\boxed{{{answer}}}.", reference)
    assert trajectory.reward == 1


@pytest.mark.parametrize(("reference", "answer"), WRONG)
async def test_another_number_or_unit_is_wrong(score: Score, reference: str, answer: str) -> None:
    assert parse_quantity(answer) is not None
    trajectory = await score(quantity(), f"\\boxed{{{answer}}}", reference)
    assert trajectory.reward == 0


@pytest.mark.parametrize("answer", [*UNREADABLE, *ALIKE])
async def test_what_is_no_quantity_is_wrong_and_found_so_at_once(score: Score, answer: str) -> None:
    parse_unit("m")
    started = time.process_time()
    assert parse_quantity(answer) is None
    assert time.process_time() - started < 4
    trajectory = await score(quantity(), f"\\boxed{{{answer}}}", "12 m")
    assert (trajectory.reward, trajectory.failure) == (0, None)


@pytest.mark.parametrize(
    ("answer", "tolerance", "expected"),
    [
        ("101 m", 0.01, 1),
        ("99 m", 0.01, 1),
        ("101.1 m", 0.01, 0),
        ("0.1 km", 0, 1),
        ("100.1 m", 0, 0),
        ("0 m", 1, 1),
    ],
)
async def test_the_tolerance_is_a_share_of_the_reference(
    score: Score, answer: str, tolerance: float, expected: float
) -> None:
    reward = quantity(tolerance=tolerance)
    assert (await score(reward, f"\\boxed{{{answer}}}", "100 m")).reward == expected


async def test_a_temperature_is_close_in_the_references_own_unit(score: Score) -> None:
    assert (await score(quantity(), "\\boxed{21 °C}", "20 °C")).reward == 0
    assert (await score(quantity(), "\\boxed{294.15 K}", "293.15 K")).reward == 1


@pytest.mark.parametrize(("reference", "expected"), [(["1 m", "3 s"], 1), ([2, "4 s"], 0)])
async def test_a_list_allows_each_of_its_entries(
    score: Score, reference: JSON, expected: float
) -> None:
    assert (await score(quantity(), "\\boxed{3 s}", reference)).reward == expected


async def test_a_reference_that_is_no_quantity_fails_the_attempt(score: Score) -> None:
    trajectory = await score(quantity(), "\\boxed{3 s}", "soon")
    assert trajectory.failure is not None
    assert "'soon', which is no quantity" in trajectory.failure.message


async def test_only_the_last_box_counts_unless_told_otherwise(score: Score) -> None:
    assert (await score(quantity(), "\\boxed{12 m} \\boxed{13 m}", "12 m")).reward == 0
    assert (await score(quantity(), "12 m", "12 m")).reward == 0
    assert (await score(quantity(extract=str.strip), " 12 m\n", "12 m")).reward == 1


@pytest.mark.parametrize("tolerance", [-0.1, float("nan")])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        quantity(tolerance=tolerance)


@given(st.text(max_size=60))
def test_any_text_is_a_quantity_or_none_and_plain_text_is_stable(text: str) -> None:
    found = parse_quantity(f"5 {text}")
    assert found is None or found.unit.factor > 0
    assert isinstance(plain_text(text), str)


@given(st.floats(1e-6, 1e6), st.sampled_from(["m/s", "km/h", "mile/hour", "cm/ms", "knot"]))
def test_a_quantity_survives_another_unit(value: float, name: str) -> None:
    reference, unit = parse_quantity(f"{value!r} m/s"), parse_unit(name)
    assert reference is not None
    assert unit is not None
    again = parse_quantity(f"{reference.value_in(unit)!r} {name}")
    assert again is not None
    assert again.is_close(reference, 1e-9)


def test_without_pint_the_reward_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pint'] = None\n"
        "import importlib.util, strop.rewards as rewards\n"
        "importlib.util.find_spec = lambda name: None\n"
        "rewards.quantity()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'strop[units]'" in ended.stderr
