"""What a push publishes, and what it answers."""

from pathlib import Path

from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub


def test_a_push_publishes_and_answers_with_the_version(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path, name="maze", version="0.1.0")

    response = hub.push(token, owner, upload)

    assert response.status_code == 201, response.text
    print(response.json())
