"""Tests that share a folder run one after another, whoever distributes them."""

import os

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_of_tests_stays_together(request: pytest.FixtureRequest) -> None:
    is_distributed = "PYTEST_XDIST_WORKER" in os.environ
    assert request.node.nodeid.endswith("@groups") == is_distributed
