"""Tests that share a folder run one after another, whoever distributes them."""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_of_tests_stays_together(request: pytest.FixtureRequest) -> None:
    is_grouped = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@groups") == bool(is_grouped)
