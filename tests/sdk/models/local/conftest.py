"""One real engine with real weights, for all the tests that ask it little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strop.models.local import KNOWN, LocalServer, fetch_weights
from tests.sdk.models.local.recording import Recording
from tests.sdk.models.renderer.templates import HERMES


@pytest.fixture(scope="session")
def weights() -> Path:
    """SmolLM2, by the way that a user's machine gets it."""
    return fetch_weights(KNOWN["smollm2"])


@pytest.fixture(scope="session")
def engine(weights: Path) -> Iterator[LocalServer]:
    # Two threads would wait for each other wherever other tests take the processors.
    with LocalServer(weights, "smollm2", threads=1) as server:
        yield server


@pytest.fixture(scope="session")
def calling(weights: Path) -> Iterator[LocalServer]:
    """The engine with a template of a model that calls tools, and one slot."""
    with LocalServer(weights, "smollm2", slots=1, threads=1, template=HERMES) as server:
        yield server


@pytest.fixture
def recording(engine: LocalServer) -> Iterator[Recording]:
    """The engine behind a proxy that keeps every exchange as it passed."""
    with Recording(engine.base_url) as proxy:
        yield proxy
