"""An installation that is killed at any moment is made whole by the next one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strop.hub.client import HubClient
from strop.hub.install import InstallOptions, install
from strop.hub.installing.record import inspect_installation
from strop.hub.installing.target import read_target
from tests.hub_server.running_hub import RunningHub
from tests.sdk.conftest import MakeTarget
from tests.sdk.published import publish

DELAYS_S = [0.6, 1.0, 1.4, 1.8, 2.2, 2.6]


@pytest.mark.slow
def test_the_next_installation_succeeds_whenever_the_last_was_killed(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    owner, _ = author = hub.new_user()
    for version, answer in (("0.1.0", "42"), ("0.2.0", "43")):
        publish(hub, author, tmp_path, version=version, answer=answer)
    target = make_target()
    strop = Path(sys.executable).with_name("strop")
    for turn, delay_s in enumerate(DELAYS_S):
        reference = f"{owner}/maze@0.{turn % 2 + 1}.0"
        command = [
            str(strop),
            "env",
            "install",
            reference,
            "--python",
            str(target),
            "--hub",
            hub.url,
        ]
        with subprocess.Popen(
            command, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            time.sleep(delay_s)
            os.killpg(process.pid, signal.SIGKILL)
        wanted = f"{owner}/maze@0.{(turn + 1) % 2 + 1}.0"
        with HubClient(hub.url) as client:
            install(client, [wanted], InstallOptions(target, "pip"))
        package = read_target(target).packages["maze"]
        assert package.version == wanted.rpartition("@")[2]
        assert inspect_installation(package.dist_info).state == "matches"
