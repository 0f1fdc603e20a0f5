"""Every attack is stopped in every tier, and leaves nothing behind."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strop.sandbox import Backend
from tests.sdk.sandbox.attacks import ATTACKS, ONLY_NAMESPACES_STOP, Attack
from tests.sdk.sandbox.conftest import NOBODY, TIGHT, Tier, open_tier, wait_for_idle

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def bystander(tier: Tier) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the host with the user that the sandbox has, or else of nobody's."""
    user = tier.uid or NOBODY
    process = subprocess.Popen(["sleep", "60"], user=user if tier.uid != 0 else None)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def canary() -> Iterator[Path]:
    """A folder of the host that anybody could write."""
    with tempfile.TemporaryDirectory(prefix="canary") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_API_KEY", "CANARY")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_an_attack_is_stopped(
    opened_backends: dict[Tier, Backend],
    tier: Tier,
    attack: Attack,
    bystander: subprocess.Popen[bytes],
    canary: Path,
) -> None:
    if tier not in opened_backends:
        opened_backends[tier] = await open_tier(tier)
    backend = opened_backends[tier]
    address = f"strop-canary-{bystander.pid}"
    arguments = {
        "killing another process of the user": [str(bystander.pid)],
        "limits and priorities of other processes": [str(bystander.pid)],
        "looking at the host's processes": [str(bystander.pid)],
        "listing the host's temporary files": [canary.name],
        "writing a folder of the host": [str(canary)],
        "abstract socket of the host": [address],
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen()
        result = await backend.run(
            attack.code,
            argv=arguments.get(attack.name, []),
            collect=["result", "../result", "out/etc/passwd"] if "result" in attack.name else [],
            limits=replace(TIGHT, wall_s=attack.wall_s),
        )

    if attack.name in ONLY_NAMESPACES_STOP and not tier.has_namespaces:
        assert {"disk_bytes", "inode_count"} <= set(backend.capabilities.not_enforced)
    else:
        assert attack.is_stopped(result), result
    assert bystander.poll() is None
    await wait_for_idle(backend)
    assert list(canary.iterdir()) == []
