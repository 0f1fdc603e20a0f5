"""Large images and sounds are kept once beside a file of trajectories, and come back exactly."""

import asyncio
import hashlib
import json
import random
import subprocess
import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    Part,
    RunPlan,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
    reward,
    tool,
)
from strop.blob_folder import MAX_INLINE_CHARS
from strop.errors import TrajectoryFileError
from strop.review.overview import read_overview
from strop.review.page import write_page
from strop.review.rescoring import rescore
from strop.review.validation import Validator
from strop.runner import run
from strop.trajectory_file import TrajectoryReader, TrajectoryWriter
from strop.trajectory_json import encode_line
from strop.waiting import WaitingMembers
from tests.sdk.cli.command import strop
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment


def noise(size_bytes: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


def data_url(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{b64encode(content).decode('ascii')}"


LARGE = noise(300_000)
SOUND = noise(40_000, seed=1)
SMALL = noise(300, seed=2)


class Showing(Episode):
    """Shows the same large picture each turn, and plays a sound."""

    @tool
    def look(self) -> list[Part]:
        """Look."""
        return [
            Part("image", url=data_url(LARGE)),
            Part("audio", url=data_url(SOUND, "audio/wav"), media_type="audio/wav"),
        ]

    async def respond(self, completion: Completion) -> Any:
        if self.turn_count == 3:
            return End()
        return [Message("user", (Part("text", text="Again:"), Part("image", url=data_url(LARGE))))]


@reward
def seen_bytes(trajectory: Trajectory) -> float:
    parts = [p for m in trajectory.messages() for p in m.content if isinstance(p, Part)]
    return float(sum(len(part.url or "") for part in parts))


@group_reward
def rank(trajectories: Sequence[Trajectory]) -> list[float]:
    return [float(seen_bytes(each)) for each in trajectories]


def showing(*rewards: Any) -> Environment:
    prompt = [Message("user", (Part("image", url=data_url(LARGE)), Part("text", text="What?")))]
    tasks = [Task(str(n), prompt) for n in range(3)]
    return Environment(tasks=tasks, rewards=rewards or (seen_bytes,), episode=Showing)


def looker() -> ScriptedModel:
    from strop.models.scripted import call

    return ScriptedModel.replies([call("look"), "a picture", "again"])


def made(folder: Path, *rewards: Any, **options: Any) -> Path:
    asyncio.run(evaluate(showing(*rewards), looker(), RunPlan(**options), out=folder))
    return folder / "trajectories.jsonl"


def with_part(part: Part) -> Trajectory:
    segment = replace(prompt_segment(None, 1), messages=(Message("user", (part,)),))
    return a_trajectory(segment, sampled_segment(0, 2))


def write(path: Path, *trajectories: Trajectory) -> Path:
    with TrajectoryWriter(path, has_fsync=True) as writer:
        for each in trajectories:
            writer.write(each)
    return path


def blob_names(path: Path) -> set[str]:
    folder = path.parent / "blobs"
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_run_keeps_each_large_part_once_and_reads_it_back(tmp_path: Path) -> None:
    path = made(tmp_path, group_size=2)

    trajectories = read_trajectories(path)

    assert blob_names(path) == {sha256(LARGE), sha256(SOUND)}
    assert (tmp_path / "blobs" / sha256(LARGE)).read_bytes() == LARGE
    assert path.stat().st_size < len(LARGE)
    assert len(trajectories) == 6
    for each in trajectories:
        prompt, shown = each.task.prompt[0].content, each.segments[2].messages[0].content
        assert prompt == showing().tasks["train"][0].prompt[0].content
        assert shown == (
            Part("image", url=data_url(LARGE)),
            Part("audio", url=data_url(SOUND, "audio/wav"), media_type="audio/wav"),
        )
    part = json.loads(path.read_bytes().splitlines()[0])["task"]["prompt"][0]["content"][0]
    blob = {"digest": sha256(LARGE), "media_type": "image/png", "size_bytes": len(LARGE)}
    assert part == {"kind": "image", "blob": blob}
    assert list(Validator(path)) == []


@pytest.mark.parametrize(
    "url",
    [
        data_url(SMALL),
        "http://127.0.0.1:9/" + "x" * MAX_INLINE_CHARS,
        "data:image/svg+xml," + "x" * MAX_INLINE_CHARS,
        data_url(LARGE) + "=",
        data_url(LARGE)[:-4] + "AB==",
        data_url(LARGE).replace("A", "\n", 1),
        data_url(LARGE) + "\ud800",
        "x" * MAX_INLINE_CHARS + data_url(LARGE),
    ],
    ids=["small", "elsewhere", "not base64", "padding", "loose bits", "odd", "surrogate", "no URL"],
)
def test_what_is_small_or_no_exact_base64_stays_in_its_line(tmp_path: Path, url: str) -> None:
    trajectory = with_part(Part("image", url=url, digest="own", media_type="image/png"))

    path = write(tmp_path / "t.jsonl", trajectory)

    assert read_trajectories(path) == [trajectory]
    assert blob_names(path) == set()
    assert path.read_bytes() == encode_line(trajectory)


@pytest.mark.parametrize("size_bytes", [12_270, 12_273])
def test_the_threshold_is_what_the_reference_says(tmp_path: Path, size_bytes: int) -> None:
    url = data_url(noise(size_bytes))
    path = write(tmp_path / "t.jsonl", with_part(Part("image", url=url)))

    assert bool(blob_names(path)) == (len(url) > 16_384)


@pytest.mark.parametrize(
    "part",
    [
        Part("image", url=data_url(LARGE, "image/png;charset=x")),
        Part("image", url=data_url(LARGE), media_type="image/other"),
        Part("audio", url=data_url(LARGE, ""), digest="an author's own"),
        Part("image", text="caption", url=data_url(LARGE)),
    ],
)
def test_every_field_of_a_large_part_comes_back(tmp_path: Path, part: Part) -> None:
    path = write(tmp_path / "t.jsonl", with_part(part))

    assert read_trajectories(path) == [with_part(part)]
    assert blob_names(path) == {sha256(LARGE)}
    assert list(Validator(path)) == []


def test_a_missing_blob_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = made(tmp_path)
    (tmp_path / "blobs" / sha256(SOUND)).unlink()

    with pytest.raises(TrajectoryFileError, match=f"line 1: The blob .*{sha256(SOUND)} cannot be"):
        read_trajectories(path)

    checked = strop("trajectory", "validate", path)
    assert checked.code == 1
    assert "`segments[2].messages[0].content[1].blob` is lost" in checked.stdout
    assert "3 lines, 3 findings" in checked.stdout


@pytest.mark.parametrize("damaged", [LARGE[:-1], LARGE[:-1] + b"\0", b""])
def test_a_damaged_blob_is_an_error_that_names_it(tmp_path: Path, damaged: bytes) -> None:
    path = made(tmp_path, task_count=1)
    (tmp_path / "blobs" / sha256(LARGE)).write_bytes(damaged)

    with pytest.raises(TrajectoryFileError, match="is damaged"):
        read_trajectories(path)

    assert "task.prompt[0].content[0].blob" in [each.field for each in Validator(path)]


@pytest.mark.parametrize("digest", ["../../secret", "A" * 64, "", "a" * 63])
def test_a_digest_never_leads_out_of_the_folder(tmp_path: Path, digest: str) -> None:
    path = made(tmp_path, task_count=1)
    (tmp_path / "secret").write_bytes(LARGE)
    path.write_bytes(path.read_bytes().replace(sha256(LARGE).encode(), digest.encode()))

    with pytest.raises(TrajectoryFileError, match="no sha256"):
        read_trajectories(path)
    assert list(Validator(path)) != []


def test_views_need_no_blob_but_for_what_they_show(tmp_path: Path) -> None:
    path = made(tmp_path, task_count=2)
    page, shown = tmp_path / "page.html", f"[image image/png {sha256(LARGE)}"

    whole = strop("eval", "view", path, "--task", "1", "--member", "0", "--json").document
    write_page([path], page, title="run")
    url = whole["trajectories"][0]["task"]["prompt"][0]["content"][0]["url"]
    assert url == data_url(LARGE)
    (tmp_path / "blobs" / sha256(LARGE)).unlink()

    assert read_overview([path]).report.attempt_count == 2
    conversation = strop("eval", "view", path, "--task", "1", "--member", "0", COLUMNS="150")
    assert shown in conversation.stdout
    refused = strop("eval", "view", path, "--html", page)
    assert refused.code != 0
    assert "Keep the folder blobs beside the file" in refused.stderr


def test_a_run_is_resumed_and_scored_again_in_another_folder(tmp_path: Path) -> None:
    path = made(tmp_path / "a", task_count=2)
    before, names = path.read_bytes(), blob_names(path)

    resumed = evaluate(showing(), looker(), RunPlan(), out=path.parent, is_resumed=True)
    report = asyncio.run(resumed)
    (tmp_path / "b").mkdir()
    target = tmp_path / "b" / "new.jsonl"
    result = asyncio.run(rescore(showing(), path, target))

    assert path.read_bytes().startswith(before)
    assert report.attempt_count == 3
    assert blob_names(path) == blob_names(target) == names
    assert result.changed_count == 0
    assert [replace(each, stamps={}) for each in read_trajectories(target)] == [
        replace(each, stamps={}) for each in read_trajectories(path)
    ]


def test_finished_lines_need_no_blob_to_go_on(tmp_path: Path) -> None:
    path = made(tmp_path, task_count=1)
    (tmp_path / "blobs" / sha256(SOUND)).unlink()

    asyncio.run(evaluate(showing(), looker(), RunPlan(), out=tmp_path, is_resumed=True))

    assert len(read_trajectories(path)) == 3, "the blob was kept again"


def test_members_that_wait_for_their_group_share_the_folder(tmp_path: Path) -> None:
    environment = showing(seen_bytes, rank)
    waiting = WaitingMembers(tmp_path / "waiting")

    async def stopped_half_way() -> None:
        async with environment:
            task = environment.tasks["train"][0]
            waiting.keep(await environment.rollout(task, looker()))

    asyncio.run(stopped_half_way())
    assert not (tmp_path / "waiting" / "blobs").exists()

    resumed = evaluate(environment, looker(), RunPlan(group_size=2), out=tmp_path, is_resumed=True)
    report = asyncio.run(resumed)

    assert (report.attempt_count, report.failures) == (6, {})
    assert not (tmp_path / "waiting").exists()
    assert blob_names(tmp_path / "trajectories.jsonl") == {sha256(LARGE), sha256(SOUND)}


def test_without_its_bytes_a_part_is_known_by_its_digest(tmp_path: Path) -> None:
    path = made(tmp_path, task_count=1)

    (trajectory,) = TrajectoryReader(path, has_blobs=False)

    part = trajectory.task.prompt[0].content[0]
    assert part == Part("image", digest=sha256(LARGE), media_type="image/png")


def test_a_full_disk_leaves_neither_half_a_blob_nor_a_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    code = f"""
import resource, signal
from pathlib import Path
from tests.sdk.test_blob_folder import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = TrajectoryWriter(Path({str(path)!r}))
writer.write(with_part(Part("image", url=data_url(SOUND))))
try:
    writer.write(with_part(Part("image", url=data_url(LARGE))))
except OSError as error:
    print("refused", error.errno)
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert printed.startswith("refused")
    assert len(read_trajectories(path)) == 1
    assert blob_names(path) == {sha256(SOUND)}


async def test_two_runs_may_keep_the_same_blob_at_once(tmp_path: Path) -> None:
    async def one(number: int) -> None:
        writer = TrajectoryWriter(tmp_path / f"{number}.jsonl")
        async with showing() as environment:
            plan = RunPlan(group_size=2)
            await run(environment, looker(), plan, on_trajectory=writer.write)
        writer.close()

    await asyncio.gather(one(0), one(1))

    for number in range(2):
        assert len(read_trajectories(tmp_path / f"{number}.jsonl")) == 6
    assert len(blob_names(tmp_path / "0.jsonl")) == 2
