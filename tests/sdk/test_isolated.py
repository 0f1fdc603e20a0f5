"""Two owners' environments of one name run side by side, each in an interpreter of its own."""

from pathlib import Path

import pytest

from strop import ScriptedModel
from strop.errors import HubRefusedError
from strop.hub.client import HubClient, Upload
from strop.hub.isolated import launch_isolated, prepare
from strop.hub.package import build_sdk_wheel
from tests.hub_server.running_hub import RunningHub
from tests.sdk.published import publish


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_environments_that_do_not_fit_together_run_side_by_side(
    hub: RunningHub, tmp_path: Path
) -> None:
    with HubClient(hub.url, hub.admin_token) as client:
        client.push("strop", Upload(build_sdk_wheel(tmp_path / "sdk"), None, None))
    references = []
    for answer in ("42", "43"):
        owner, _ = author = hub.new_user()
        publish(hub, author, tmp_path, answer=answer)
        references.append(f"{owner}/maze")
    said: list[str] = []

    with HubClient(hub.url) as client:
        async with (
            launch_isolated(client, references[0], announce=said.append) as first,
            launch_isolated(
                client, references[1], settings={"size": "3"}, announce=said.append
            ) as second,
        ):
            assert [len(each.tasks["train"]) for each in (first, second)] == [1, 3]
            model = ScriptedModel.constant("42")
            rewards = [
                (await each.rollout(each.tasks["train"][0], model)).reward
                for each in (first, second)
            ]
            identities = [each.identity for each in (first, second)]
        python, exact = prepare(client, references[0], said.append)

    assert rewards == [1.0, 0.0]
    assert [each.full_name for each in identities] == references
    assert {each.state for each in identities} == {"matches"}
    made = [line for line in said if line.startswith("Installing") and " into " in line]
    assert len(made) == 2, "the third time it is used again"
    assert exact == f"{references[0]}@0.1.0"
    assert python.exists()


def test_what_is_not_there_makes_no_folder(hub: RunningHub) -> None:
    from strop.config import cache_folder

    owner, _ = hub.new_user()
    with HubClient(hub.url) as client, pytest.raises(HubRefusedError):
        prepare(client, f"{owner}/nothing")

    assert not (cache_folder() / "isolated").exists()
