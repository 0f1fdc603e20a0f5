"""The strongest backend is chosen by doing, and nothing weaker without being asked for."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from strop.errors import SandboxUnavailableError
from strop.sandbox import Level, open_backend
from strop.sandbox.backends.docker import DockerTransport
from strop.sandbox.choose import ALLOW_UNSAFE, Probe, candidates
from strop.sandbox.doctor import Report, examine
from tests.sdk.sandbox.conftest import SYSTEM_PYTHON, TIERS, open_tier

SDK = str(Path(__file__).parents[3] / "sdk")


async def test_the_strongest_tier_is_chosen() -> None:
    await (await open_tier(TIERS[0])).close()
    async with await open_backend() as backend:
        assert backend.name == TIERS[0].name
        assert backend.capabilities.isolation == Level.NAMESPACE


def test_weaker_tiers_are_tried_only_when_allowed() -> None:
    assert "zygote-landlock" not in candidates(Level.NAMESPACE)
    assert candidates(Level.LANDLOCK)[-1] == "zygote-landlock"
    assert candidates(Level.MICROVM) == []
    assert all("unsafe" not in name for name in candidates(Level.NONE))


async def test_a_plain_child_process_needs_its_name_and_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ALLOW_UNSAFE, raising=False)
    with pytest.raises(SandboxUnavailableError, match=f"set {ALLOW_UNSAFE}=1"):
        await open_backend("unsafe-subprocess")

    monkeypatch.setenv(ALLOW_UNSAFE, "1")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    async with await open_backend("unsafe-subprocess") as backend:
        result = await backend.run(
            "import os; print(sorted(os.environ))\nwhile True: os.write(1, b'x' * 65536)"
        )
        assert result.isolation == Level.NONE
        assert result.status == "output_limit"
        assert b"SECRET_TOKEN" not in result.stdout
        assert "isolation" in backend.capabilities.not_enforced


async def test_a_refusal_names_every_probe_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    missing = str(tmp_path / "python")
    with pytest.raises(SandboxUnavailableError) as caught:
        await open_backend(min_isolation=Level.LANDLOCK, python=missing)

    text = str(caught.value)
    for name in candidates(Level.LANDLOCK):
        assert f"  - {name}: " in text
    assert text.count("Remedy: ") == len(candidates(Level.LANDLOCK))
    assert "ENOENT" in text
    assert list(tmp_path.iterdir()) == [], "a refusal left something behind"


def test_a_probe_reads_as_one_line_with_its_errno() -> None:
    probe = Probe("zygote-userns", False, "unshare(0x6c020000): no", 1, "allow it")

    assert str(probe) == "zygote-userns: unshare(0x6c020000): no [EPERM]. Remedy: allow it"


DENY_UNSHARE = """
import asyncio, errno, json, struct, sys
from strop.sandbox.zygote import linux, seccomp
LD, EQ, RET = 0x20, 0x15, 0x06
numbers = {"x86_64": (272, 165), "aarch64": (97, 40)}[__import__("platform").machine()]
program = [(LD, 0, 0, 0)]
for nr in numbers:
    program += [(EQ, 0, 1, nr), (RET, 0, 0, 0x50000 | errno.EPERM)]
program.append((RET, 0, 0, 0x7FFF0000))
seccomp.install(b"".join(struct.pack("HBBI", *step) for step in program))
from strop.sandbox import Level, open_backend
from strop.errors import SandboxUnavailableError

async def main():
    try:
        await open_backend()
    except SandboxUnavailableError as error:
        print(json.dumps([error.errno, str(error)]))
    async with await open_backend(min_isolation=Level.LANDLOCK) as backend:
        result = await backend.run("print(6 * 7)")
        print(json.dumps([backend.name, result.isolation.name, result.text]))

asyncio.run(main())
"""


def test_where_namespaces_are_denied_it_refuses_or_falls_back_as_asked() -> None:
    is_root = os.geteuid() == 0
    outcome = subprocess.run(
        [SYSTEM_PYTHON if is_root else sys.executable, "-c", DENY_UNSHARE],
        capture_output=True,
        text=True,
        user=65534 if is_root else None,
        group=65534 if is_root else None,
        extra_groups=[] if is_root else None,
        env={"PYTHONPATH": SDK, "PATH": "/usr/bin:/bin"},
        cwd="/",
        check=False,
    )

    refused, fallen = (json.loads(line) for line in outcome.stdout.splitlines())
    assert "zygote-userns: unshare" in refused[1]
    assert "EPERM" in refused[1]
    assert "max_user_namespaces" in refused[1]
    assert fallen == ["zygote-landlock", "LANDLOCK", "42\n"]


async def test_what_is_stronger_than_anything_here_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxUnavailableError, match="no backend can be that strong"):
        await open_backend(min_isolation=Level.MICROVM)
    with pytest.raises(
        SandboxUnavailableError, match=r"GVISOR or stronger.*\n  - docker: "
    ) as found:
        await open_backend(min_isolation=Level.GVISOR)
    assert "podman is not installed" in str(found.value)


async def test_a_backend_that_is_named_is_no_weaker_than_asked_for() -> None:
    await (await open_tier(TIERS[-1])).close()
    python = SYSTEM_PYTHON if os.geteuid() == 0 else None
    async with await open_backend("zygote-landlock", python=python) as backend:
        assert backend.capabilities.isolation == Level.LANDLOCK

    with pytest.raises(SandboxUnavailableError, match="LANDLOCK, and NAMESPACE is the least"):
        await open_backend("zygote-landlock", min_isolation=Level.NAMESPACE, python=python)


async def test_the_doctor_says_what_holds_and_what_does_not() -> None:
    report = await examine()
    document = json.loads(json.dumps(report.to_json()))

    names = [backend["name"] for backend in document["backends"]]
    assert names == candidates(Level.LANDLOCK)
    for backend in document["backends"]:
        assert backend["is_usable"] or backend["remedy"]
        if backend["is_usable"]:
            assert "memory_bytes" in backend["enforced"]
            assert "shared kernel" in backend["not_enforced"]
            assert "wall_s" in backend["not_enforced"]["processor time"]
        if backend["is_usable"] and backend["name"].startswith("zygote-"):
            assert "the watchdog" in backend["enforced"]["memory_bytes"]
            is_bounded = "control group" in backend["enforced"]["memory_bytes"]
            assert is_bounded is ("memory between two looks" not in backend["not_enforced"])
    assert set(report.capabilities) == {probe.name for probe in report.probes if probe.is_usable}


def test_the_doctor_names_a_container_engine_as_chosen_where_nothing_comes_before_it() -> None:
    found = DockerTransport("/usr/bin/docker", None).capabilities
    probes = (Probe("zygote-userns", False, "no"), Probe("docker", True))
    report = Report("6.1", 1000, 6, "none", probes, {"docker": found})

    assert report.chosen == "docker"
    assert report.to_json()["backends"][1]["isolation"] == "CONTAINER"
