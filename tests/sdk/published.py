"""Small environments, published as their author would."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strop.hub.client import HubClient, Upload
from strop.hub.wire import PushResult
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub

MODULE = """
from strop import Environment, Task, reward

ANSWER = {answer!r}


@reward(range=(0, 1))
def is_right(trajectory):
    return float(trajectory.text == ANSWER)


def load_environment(size: int = 1) -> Environment:
    return Environment(
        tasks=[Task(str(n), "What?", ANSWER) for n in range(size)],
        rewards=[is_right],
        oracle=lambda task: ANSWER,
    )
"""


def publish(
    hub: RunningHub,
    author: tuple[str, str],
    folder: Path,
    *,
    name: str = "maze",
    version: str = "0.1.0",
    answer: str = "42",
    manifest: Mapping[str, Any] | None = None,
) -> PushResult:
    """Push a wheel with one module; `answer` makes another content of the same version."""
    owner, token = author
    module = name.replace("-", "_")
    upload = an_upload(
        folder / f"{owner}-{name}-{version}-{answer}",
        tree={"pyproject.toml": f"{name} {version} {answer}"},
        name=name,
        version=version,
        files={f"{module}.py": MODULE.format(answer=answer)},
        manifest=manifest,
    )
    with HubClient(hub.url, token) as client:
        tree_digest = upload.fields["tree_digest"]
        return client.push(owner, Upload(upload.wheel, upload.source, tree_digest))
