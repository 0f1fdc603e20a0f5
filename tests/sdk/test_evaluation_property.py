"""Figures of a report equal those of a slow and plain computation, in any order of arrival."""

import itertools
import math
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import Attempt, Environment, ScriptedModel, Task, TaskSet
from strop.attempt import derive_seed
from strop.canonical import canonical_json, json_digest
from strop.errors import RewardError
from strop.evaluation import Tally, pass_at_k, summarize
from strop.reward_function import Reward, reward
from strop.trajectory import Trajectory
from strop.types import Sampling, Usage
from tests.sdk.test_evaluation import scored

REWARDS = st.none() | st.sampled_from([0.0, 0.5, 1.0]) | st.floats(-10, 10)
GROUPS = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.lists(REWARDS, min_size=size, max_size=size), min_size=1, max_size=6)
)


def trajectories(groups: list[list[float | None]]) -> list[Trajectory]:
    return [
        scored(str(key), value, member)
        for key, group in enumerate(groups)
        for member, value in enumerate(group)
    ]


@given(GROUPS)
def test_a_report_says_what_plain_statistics_say(groups: list[list[float | None]]) -> None:
    report = summarize(trajectories(groups), group_size=len(groups[0]))

    valid = [value for group in groups for value in group if value is not None]
    means = [
        statistics.fmean(v for v in group if v is not None)
        for group in groups
        if any(v is not None for v in group)
    ]
    assert report.attempt_count == sum(map(len, groups))
    assert report.scored_count == len(valid)
    assert report.task_count == len(means)
    assert report.failures.get("RewardError", 0) == report.attempt_count - len(valid)
    if valid:
        assert report.mean_reward == pytest.approx(statistics.fmean(valid), abs=1e-9)
    else:
        assert report.mean_reward is None
    if len(means) > 1:
        error = statistics.stdev(means) / math.sqrt(len(means))
        assert report.standard_error == pytest.approx(error, abs=1e-9)
    else:
        assert report.standard_error is None


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_in_which_attempts_end_changes_nothing(
    groups: list[list[float | None]], order: object
) -> None:
    came = trajectories(groups)
    shuffled = list(came)
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    one, other = (summarize(each, group_size=len(groups[0])) for each in (came, shuffled))

    assert other.failures == one.failures
    assert other.mean_reward == pytest.approx(one.mean_reward, abs=1e-9)
    assert other.standard_error == pytest.approx(one.standard_error, abs=1e-9)
    assert other.pass_at == pytest.approx(one.pass_at, abs=1e-9)


@given(GROUPS)
def test_asking_for_a_report_in_between_changes_nothing(groups: list[list[float | None]]) -> None:
    watched, plain = Tally(len(groups[0])), Tally(len(groups[0]))
    for each in trajectories(groups):
        watched.add(each)
        watched.report()
        plain.add(each)

    assert watched.report() == plain.report()


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_all_choices_that_hold_a_pass(
    count: int, data: st.DataObject
) -> None:
    passed = data.draw(st.integers(0, count))
    k = data.draw(st.integers(1, count))

    attempts = [True] * passed + [False] * (count - passed)
    choices = [any(choice) for choice in itertools.combinations(attempts, k)]

    expected = Fraction(sum(choices), len(choices))
    assert pass_at_k(count, passed, k) == pytest.approx(float(expected))


@given(st.integers(1, 2000), st.data())
def test_pass_at_k_grows_with_k_and_with_passes_and_stays_a_chance(
    count: int, data: st.DataObject
) -> None:
    passed = data.draw(st.integers(0, count))
    k = data.draw(st.integers(1, count))

    chance = pass_at_k(count, passed, k)

    assert 0.0 <= chance <= 1.0
    assert pass_at_k(count, count, k) == 1.0
    assert pass_at_k(count, 0, k) == 0.0
    if k > 1:
        assert pass_at_k(count, passed, k - 1) <= chance + 1e-12
    if passed < count:
        assert chance <= pass_at_k(count, passed + 1, k) + 1e-12


INVALID: list[object] = [
    None,
    "1",
    [1.0],
    {},
    float("nan"),
    float("inf"),
    -math.inf,
    10**400,
    -(10**400),
    Fraction(10**400),
    1j,
    b"1",
    1.0000001,
    -0.0000001,
    2,
]


@pytest.mark.parametrize("value", INVALID, ids=map(str, range(len(INVALID))))
def test_a_value_that_is_no_number_of_its_range_is_an_error_that_names_the_function(
    value: object,
) -> None:
    def graded(trajectory: Trajectory) -> object:
        return value

    with pytest.raises(RewardError, match="`graded` returned"):
        Reward(graded, range=(0, 1)).checked(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0.0), (1, 1.0), (True, 1.0), (False, 0.0), (Fraction(1, 4), 0.25), (-0.0, 0.0)],
)
def test_a_value_that_is_a_number_of_its_range_is_a_float(value: object, number: float) -> None:
    found = Reward(lambda trajectory: value, name="graded", range=(0, 1)).checked(value)

    assert found == number
    assert type(found) is float


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -math.inf])
def test_a_weight_that_makes_every_total_endless_is_refused_at_once(weight: float) -> None:
    with pytest.raises(ValueError, match="The weight of `graded`"):
        reward(weight=weight, name="graded")(lambda trajectory: 1.0)


@pytest.mark.parametrize("bounds", [(1, 0), (float("nan"), 1), (0, float("nan"))])
def test_a_range_in_which_no_number_lies_is_refused_at_once(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="The range of `graded`"):
        reward(range=bounds, name="graded")(lambda trajectory: 1.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda: 1.0,
        lambda one, two: 1.0,
        lambda *, trajectory: 1.0,
        lambda trajectory, *, needed: 1.0,
    ],
    ids=range(4),
)
def test_a_function_of_another_signature_is_refused_at_once(function: object) -> None:
    with pytest.raises(ValueError, match=r"cannot be called as graded\(trajectory\)"):
        Reward(function, "graded")  # type: ignore[arg-type]


IDENTITY = st.tuples(
    st.integers(-(10**30), 10**30),
    st.text(),
    st.text(),
    st.text(),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)


@given(IDENTITY)
def test_seeds_are_of_64_bits_and_shared_by_a_group(
    identity: tuple[int, str, str, str, int, int],
) -> None:
    attempt = Attempt(*identity)

    assert 0 <= attempt.environment_seed < 2**64
    assert 0 <= attempt.sampling_seed < 2**64
    assert attempt.environment_seed == attempt.group.environment_seed
    assert attempt.group.group == attempt.group
    assert attempt.sampling_seed == derive_seed(*identity)


def test_seeds_are_what_the_contract_says() -> None:
    import hashlib

    text = '[7,"ada/maze","train","\\u00e9",0,3]'
    expected = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    assert Attempt(7, "ada/maze", "train", "é", 0, 3).sampling_seed == expected


def test_no_two_attempts_of_a_run_share_a_sampling_seed() -> None:
    seeds = {
        Attempt(0, "ada/maze", split, str(key), visit, member).sampling_seed
        for split in ("train", "eval")
        for key in range(50)
        for visit in range(3)
        for member in range(4)
    }

    assert len(seeds) == 2 * 50 * 3 * 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(categories=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), JSON))
def test_the_order_of_keys_does_not_change_a_digest(value: dict[str, object]) -> None:
    reverse = dict(reversed(value.items()))

    assert json_digest(reverse) == json_digest(value)  # type: ignore[arg-type]
    assert canonical_json(value).isascii()  # type: ignore[arg-type]


@given(JSON, JSON)
def test_values_that_differ_have_other_digests(one: object, other: object) -> None:
    is_equal = canonical_json(one) == canonical_json(other)  # type: ignore[arg-type]

    assert (json_digest(one) == json_digest(other)) == is_equal  # type: ignore[arg-type]
    if is_equal:
        assert one == other


@given(st.integers(0, 10**18), st.integers(0, 2**32))
def test_a_generated_task_is_found_again_by_its_key(index: int, seed: int) -> None:
    tasks = TaskSet.generate(lambda i, rng: Task("", f"{i} {rng.random()}"), seed=seed)

    task = tasks[index]

    assert task.key == str(index)
    assert tasks.get(str(index)) == task
    assert tasks.named("train")[index].prompt != tasks.named("eval")[index].prompt


@pytest.mark.parametrize(
    "key",
    ["", "-1", "01", "1.0", " 1", "1 ", "+1", "\u0661", "²", "x", "9" * 5000, "1" * 21, "1_0"],
)
def test_a_key_that_no_generated_task_has_is_not_found(key: str) -> None:
    with pytest.raises(KeyError):
        TaskSet.generate(lambda i, rng: Task("", "x")).get(key)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_generated_set_ends_where_it_says(size: int) -> None:
    tasks = TaskSet.generate(lambda i, rng: Task("", str(i)), size=size)

    assert [task.key for task in tasks] == [str(n) for n in range(size)]
    assert len(tasks) == size
    for key in (size, -1):
        with pytest.raises(IndexError):
            tasks[key]
        with pytest.raises(KeyError):
            tasks.get(str(key))


def test_a_set_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="size is -1"):
        TaskSet.generate(lambda i, rng: Task("", "x"), size=-1)
    sources: tuple[object, ...] = ("abc", iter([]), 3)
    for source in sources:
        with pytest.raises(TypeError, match="cannot pass twice over"):
            TaskSet(source)  # type: ignore[arg-type]


COUNTS = st.builds(Usage, *[st.integers(0, 10**9)] * 3)


@given(st.lists(COUNTS, max_size=5))
def test_counts_add_up_in_any_order(counts: list[Usage]) -> None:
    assert sum(counts, Usage()) == sum(reversed(counts), Usage())


WISHES = st.builds(
    Sampling,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 100),
    stop=st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(tuple),
    seed=st.none() | st.integers(0, 9),
    extra=st.dictionaries(st.sampled_from("xy"), st.integers(0, 3)),
)


@given(WISHES, WISHES)
def test_a_narrowed_sampling_never_allows_more(driver: Sampling, wish: Sampling) -> None:
    narrowed = driver.narrowed(wish)

    limits = [each for each in (driver.max_tokens, wish.max_tokens) if each is not None]
    assert narrowed.max_tokens == (min(limits) if limits else None)
    assert set(narrowed.stop) == {*driver.stop, *wish.stop}
    assert len(set(narrowed.stop)) == len(narrowed.stop)
    assert narrowed.temperature == driver.temperature
    assert narrowed.extra == wish.extra | driver.extra
    assert narrowed.narrowed(wish) == narrowed
    assert driver.narrowed(Sampling()) == driver


async def test_a_weighted_sum_beyond_every_float_fails_and_is_never_silently_missing() -> None:
    def large(trajectory: Trajectory) -> float:
        return 1e308

    rewards = [Reward(large, f"large_{n}", weight=10.0, is_inline=True) for n in range(2)]
    environment = Environment(tasks=[Task("1", "ask")], rewards=rewards)

    trajectory = await environment.rollout(
        environment.tasks["train"][0], ScriptedModel.constant("x")
    )

    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert "The weighted sum of `large_0`, `large_1` is beyond" in trajectory.failure.message
    assert trajectory.rewards["large_0"].value == 1e308
