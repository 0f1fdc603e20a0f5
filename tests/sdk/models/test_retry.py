"""Retries wait longer each time, obey the endpoint, and end."""

from __future__ import annotations

import time

import pytest

from strop.errors import ModelError, ModelRequestError, ModelUnavailableError
from strop.models.retry import NO_RETRIES, RetryPolicy, call_with_retries


class Failing:
    """Fails as often as it is told, then gives the number of the try."""

    def __init__(self, failure_count: int, error: ModelError | None = None) -> None:
        self.failure_count = failure_count
        self.error = error or ModelUnavailableError("busy")
        self.tries: list[int] = []

    async def __call__(self, try_index: int) -> int:
        self.tries.append(try_index)
        if len(self.tries) <= self.failure_count:
            raise self.error
        return try_index


async def test_tries_are_numbered_from_0() -> None:
    call = Failing(2)

    assert await call_with_retries(call, RetryPolicy(base_s=0.001)) == 2
    assert call.tries == [0, 1, 2]


async def test_an_error_that_stays_is_raised_after_the_last_try() -> None:
    call = Failing(99)

    with pytest.raises(ModelUnavailableError, match="busy"):
        await call_with_retries(call, RetryPolicy(try_count=4, base_s=0.001))

    assert len(call.tries) == 4


@pytest.mark.parametrize("policy", [RetryPolicy(base_s=0.001), NO_RETRIES])
async def test_an_error_that_cannot_pass_is_raised_at_once(policy: RetryPolicy) -> None:
    call = Failing(1, ModelRequestError("no such model"))

    with pytest.raises(ModelRequestError):
        await call_with_retries(call, policy)

    assert len(call.tries) == 1


async def test_without_retries_one_try_is_all() -> None:
    call = Failing(1)

    with pytest.raises(ModelUnavailableError):
        await call_with_retries(call, NO_RETRIES)

    assert call.tries == [0]


async def test_errors_of_others_are_none_of_its_business() -> None:
    async def broken(_: int) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await call_with_retries(broken, RetryPolicy())


async def test_what_the_endpoint_asks_for_is_waited_at_least() -> None:
    call = Failing(1, ModelUnavailableError("busy", retry_after_s=0.05))
    began = time.monotonic()

    await call_with_retries(call, RetryPolicy(base_s=0.001))

    assert time.monotonic() - began >= 0.05


async def test_a_wait_beyond_the_total_is_not_begun() -> None:
    call = Failing(1, ModelUnavailableError("busy", retry_after_s=3600.0))
    began = time.monotonic()

    with pytest.raises(ModelUnavailableError) as caught:
        await call_with_retries(call, RetryPolicy(total_s=60.0))

    assert time.monotonic() - began < 60.0
    assert caught.value.__notes__ == ["given up after 1 tries"]


def test_waits_double_are_spread_and_have_a_ceiling() -> None:
    policy = RetryPolicy(base_s=1.0, longest_s=5.0)

    for tried_count, ceiling in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (2000, 5.0)):
        waits = [policy.wait_s(tried_count, None) for _ in range(200)]
        assert 0.0 <= min(waits) < 0.25 * ceiling
        assert 0.75 * ceiling < max(waits) <= ceiling
    assert 7.0 <= policy.wait_s(1, 7.0) <= 8.0
