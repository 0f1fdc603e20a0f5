"""The page works in a real browser, alone, with many attempts and with hostile ones."""

import json
import random
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strop import Attempt, Message, Part
from strop.review.page import write_page
from strop.review.page_entry import PageEntry
from strop.review.vocabulary import Vocabulary
from strop.stamp_file import StampWriter
from strop.trajectory import Seat, Segment, TurnValues
from strop.trajectory_file import TrajectoryWriter
from tests.sdk.cli.command import strop
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment
from tests.sdk.trajectory_tools.browser import CHROMIUM, Browser, open_browser
from tests.sdk.trajectory_tools.hostile import HOSTILE, MARKUP, hostile_trajectory
from tests.sdk.trajectory_tools.runs import a_run, attempt_at


@pytest.fixture(scope="module")
def shared_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is absent: apt-get install chromium")
    with open_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Browser) -> Iterator[Browser]:
    shared_browser.resize(1280, 900)
    shared_browser.complaints.clear()
    yield shared_browser
    assert shared_browser.complaints == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return page_of(a_run(tmp_path / "run" / "trajectories.jsonl"))


def page_of(source: Path, **options: Any) -> Path:
    target = source.with_suffix(".html")
    write_page([source], target, title="run/one", **options)
    return target


def written(path: Path, *trajectories: Any) -> Path:
    with TrajectoryWriter(path) as writer:
        for each in trajectories:
            writer.write(each)
    return path


def click(browser: Browser, selector: str, text: str = "") -> None:
    found = (
        f"[...document.querySelectorAll({json.dumps(selector)})]"
        f".find((element) => element.textContent.includes({json.dumps(text)}))"
    )
    browser.wait(found)
    browser.evaluate(f"{found}.click()")


def fill(browser: Browser, name: str, value: str) -> None:
    browser.evaluate(
        f"(() => {{ const field = document.forms[0].elements[{name!r}];"
        f"field.value = {json.dumps(value)};"
        "field.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )


def test_it_shows_figures_histogram_and_attempts(browser: Browser, page: Path) -> None:
    browser.open(page)

    assert "mean reward\n0.5258 ± 0.031" in browser.text(".figures")
    assert browser.evaluate("document.querySelectorAll('.bars button').length") == 10
    assert browser.text("#count") == "24 of 24 attempts"


def test_it_asks_nothing_of_anybody(browser: Browser, page: Path) -> None:
    browser.open(page, "#a1")
    click(browser, "button", "Compare")
    browser.wait("document.querySelectorAll('.columns > section').length === 4")

    assert browser.requests == [page.as_uri()]
    text = page.read_text()
    assert "http://" not in text
    assert "https://" not in text


def test_an_attempt_shows_turns_calls_reasoning_and_rewards(browser: Browser, page: Path) -> None:
    browser.open(page)
    click(browser, "#rows button", "0 · 1")
    browser.wait("document.querySelectorAll('article').length === 7")

    shown = browser.text("#detail")

    assert "Task 0, member 1" in shown
    assert '{"direction":"left"}' in shown
    assert "Reasoning" in shown
    assert "progress\t0.414\t1" in shown
    assert "turn 3 · tiny · stop" in shown


def test_tokens_are_coloured_by_logprob(browser: Browser, page: Path) -> None:
    browser.open(page, "#a1")
    browser.wait("document.querySelectorAll('.tokens span').length > 20")

    colours = browser.evaluate(
        "[...new Set([...document.querySelectorAll('.tokens span')]"
        ".map((token) => getComputedStyle(token).backgroundColor))]"
    )

    assert len(colours) >= 4
    assert "logprob" in browser.evaluate("document.querySelector('.tokens span').title")


def test_with_a_vocabulary_tokens_are_text(browser: Browser, tmp_path: Path) -> None:
    source = a_run(tmp_path / "t.jsonl", 1, 1)
    words = Vocabulary({number: f"<b>{number}</b>" for number in range(5_000)})

    browser.open(page_of(source, vocabulary=words))
    browser.wait("document.querySelectorAll('.tokens span').length > 20")

    assert browser.text(".tokens span").startswith("<b>")


def test_a_failure_stands_first_with_its_traceback(browser: Browser, page: Path) -> None:
    browser.open(page)
    fill(browser, "outcome", "failed:RewardError")
    click(browser, "#rows button")
    browser.wait("document.querySelector('.failure')")

    assert browser.text("#count") == "2 of 24 attempts"
    assert "RewardError at the boundary reward" in browser.text(".failure")
    click(browser, ".failure summary")
    assert "KeyError" in browser.text(".failure pre:last-child")


def test_lists_are_filtered_by_task_and_reward_and_ordered(browser: Browser, page: Path) -> None:
    browser.open(page)
    fill(browser, "low", "0.7")
    assert browser.text("#count") == "7 of 24 attempts"
    fill(browser, "key", "1")
    assert browser.text("#count") == "1 of 24 attempts"
    click(browser, "button", "Clear")
    browser.wait("document.querySelector('#count').textContent.startsWith('24')")
    fill(browser, "order", "worst")
    assert browser.text("#rows .reward") == "0.082"
    click(browser, ".bars button", "0.9")
    assert browser.text("#count") == "2 of 24 attempts"


def test_members_of_a_group_stand_side_by_side(browser: Browser, page: Path) -> None:
    browser.open(page)
    fill(browser, "view", "groups")
    assert browser.text("#count") == "6 of 6 groups"
    click(browser, "#rows button", "4 attempts")
    browser.wait("document.querySelectorAll('.columns > section').length === 4")

    tops = browser.evaluate(
        "[...document.querySelectorAll('.columns > section')]"
        ".map((column) => column.getBoundingClientRect().top)"
    )

    assert len(set(tops)) == 1
    assert "Member 0: 0.728" in browser.text(".columns")


def test_keys_move_through_the_list(browser: Browser, page: Path) -> None:
    browser.open(page, "#a0")
    for _ in range(2):
        browser.evaluate(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true}))"
        )

    browser.wait("document.querySelector('#detail h2').textContent === 'Task 0, member 2'")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_window(browser: Browser, page: Path, width: int) -> None:
    browser.resize(width, 800)
    for fragment in ("", "#a7", "#g1"):
        browser.open(page, fragment)

        assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_a_choice_takes_the_list_away_and_back_brings_it(
    browser: Browser, page: Path
) -> None:
    browser.resize(390, 800)
    browser.open(page)
    assert not browser.evaluate("document.querySelector('#detail').checkVisibility()")
    click(browser, "#rows button", "0 · 1")
    browser.wait("document.querySelectorAll('article').length === 7")

    assert not browser.evaluate("document.querySelector('#rows').checkVisibility()")
    click(browser, ".back")
    browser.wait("document.querySelector('#rows').checkVisibility()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_light_and_dark(browser: Browser, page: Path, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=features)
    browser.open(page, "#a1")
    browser.wait("document.querySelectorAll('.tokens span').length > 20")

    ratios = browser.evaluate(
        """(() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map((part) => part / 255)
              .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ground = (element) => {
            for (let at = element; at; at = at.parentElement) {
              const colour = getComputedStyle(at).backgroundColor;
              if (!colour.endsWith(", 0)")) return colour;
            }
          };
          return ["h1", ".figures dt", "#rows small", "article h4", ".tokens .k0", ".tokens .k3",
            ".tokens .k5", ".reasoning", ".call b", ".legend .k0"]
            .map((selector) => document.querySelector(selector)).filter(Boolean)
            .map((element) => {
              const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
              return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            });
        })()"""
    )

    assert min(ratios) >= 4.5


def test_hostile_text_stays_text_in_every_field(browser: Browser, tmp_path: Path) -> None:
    scored = a_trajectory(
        attempt=Attempt(1, MARKUP, MARKUP, MARKUP),
        seats={MARKUP: Seat(True, 0.0)},
        segments=(Segment("completion", MARKUP, None, (Message("assistant", HOSTILE),)),),
        turn_rewards=None,
        metrics={},
    )
    source = written(tmp_path / "t.jsonl", hostile_trajectory(), scored)
    target = source.with_suffix(".html")
    write_page([source], target, title=HOSTILE)
    markup_count = "document.querySelectorAll('img, svg, iframe, object, a').length"

    for fragment in ("#a0", "#a1", "#g0"):
        browser.open(target, fragment)
        browser.wait("document.querySelector('#detail').textContent.includes('onerror')")
        browser.evaluate(
            "document.querySelectorAll('details').forEach((it) => { it.open = true; })"
        )

        assert browser.evaluate(markup_count) == 0
        assert browser.evaluate("document.querySelectorAll('style').length") == 1
        assert "</script><script>alert(1)" in browser.text("#detail")
        assert "\\x1b[2J" in browser.text("#detail")
        assert browser.requests == [target.as_uri()]
    assert browser.evaluate("document.title").startswith("\\x1b[2J")


def test_markup_of_a_run_is_nowhere_in_the_file(tmp_path: Path) -> None:
    source = written(tmp_path / "t.jsonl", hostile_trajectory())
    target = tmp_path / "t.html"
    write_page([source], target, title=HOSTILE)

    text = target.read_text()

    assert "<script>alert(" not in text
    assert "<img" not in text
    assert text.count("<script") == text.count("</script>")
    assert "\x1b" not in text


def test_an_embedded_picture_is_shown_and_no_other(browser: Browser, tmp_path: Path) -> None:
    pixel = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
        "DwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    parts = (Part("image", url=pixel), Part("image", url="http://127.0.0.1:9/x.png"))
    shown = a_trajectory(Segment("messages", "policy", None, (Message("user", parts),)))
    target = page_of(written(tmp_path / "t.jsonl", replace(shown, turn_rewards=None)))

    browser.open(target)
    browser.wait("document.querySelector('img') && document.querySelector('img').naturalWidth")

    assert browser.evaluate("document.querySelectorAll('img').length") == 1
    assert "http://127.0.0.1:9/x.png" in browser.text("article")


def a_large_picture(side: int) -> str:
    """A PNG of noise, which no compression makes small."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    lines = b"".join(b"\0" + random.Random(row).randbytes(side) for row in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    content = b"\x89PNG\r\n\x1a\n" + parts
    return f"data:image/png;base64,{b64encode(content).decode()}"


def test_what_turns_earned_and_stamps_are_told_and_a_large_picture_is_shown(
    browser: Browser, tmp_path: Path
) -> None:
    seen = Message("user", (Part("image", url=a_large_picture(150)),))
    shown = a_trajectory(
        Segment("messages", "policy", None, (seen,)),
        sampled_segment(0, 2),
        turn_rewards=(0.25,),
        turn_values={"step": TurnValues((0.5,), 0.5)},
    )
    source = written(tmp_path / "t.jsonl", shown)
    with StampWriter(source) as stamps:
        stamps.write(shown.attempt, group_id="g17")
    assert len(list((tmp_path / "blobs").iterdir())) == 1

    browser.open(page_of(source))
    browser.wait("document.querySelector('img') && document.querySelector('img').naturalWidth")

    assert browser.evaluate("document.querySelector('img').naturalWidth") == 150
    assert "turn 1 · reward 0.25 · tiny · stop" in browser.text("article.assistant h4")
    assert "temperature 0.7, top_p 0.9" in browser.text("article.assistant h4")
    facts = browser.evaluate("document.querySelector('.facts').textContent")
    assert "turns: step" in facts
    assert "g17" in facts


def test_a_message_of_a_megabyte_is_shown_in_part_and_then_whole(
    browser: Browser, tmp_path: Path
) -> None:
    long = "word " * 200_000
    shown = a_trajectory(Segment("messages", "policy", None, (Message("user", long),)))
    target = page_of(written(tmp_path / "t.jsonl", replace(shown, turn_rewards=None)))

    browser.open(target)
    browser.wait("document.querySelector('article')")
    assert len(browser.text("article pre")) == 20_000
    click(browser, "article .more")

    assert browser.evaluate("document.querySelector('article pre').textContent.length") == 10**6


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_attempts_are_listed_at_once_and_opened_one_by_one(
    browser: Browser, tmp_path: Path, count: int
) -> None:
    source = tmp_path / "t.jsonl"
    rng = random.Random(3)
    models = [attempt_at(task, 0, rng, turns=2) for task in range(50)]
    with TrajectoryWriter(source) as writer:
        for number in range(count):
            model = models[number % 50]
            attempt = replace(model.attempt, task_key=f"task-{number // 8}", member=number % 8)
            writer.write(replace(model, attempt=attempt))

    target = page_of(source)
    browser.open(target)

    last = f"task-{count // 8 - 1}"
    assert browser.text("#count") == f"{count:,} of {count:,} attempts"
    assert browser.evaluate("document.querySelectorAll('#rows li').length") == 100
    fill(browser, "key", last)
    assert browser.text("#count") == f"8 of {count:,} attempts"
    click(browser, "#rows button", f"{last} · 7")
    browser.wait("document.querySelectorAll('article').length === 5")
    assert target.stat().st_size < 3_000 * count


def test_a_page_that_grows_too_large_lists_the_rest_and_says_so(
    browser: Browser, tmp_path: Path
) -> None:
    rng = random.Random(5)
    noise = ["".join(rng.choices("abcdefghijklmnop", k=400_000)) for _ in range(8)]
    members = [
        replace(
            a_trajectory(Segment("messages", "policy", None, (Message("user", text),))),
            attempt=Attempt(1, "ada/maze", "train", "7", 0, member),
            turn_rewards=None,
        )
        for member, text in enumerate(noise)
    ]
    target = page_of(written(tmp_path / "t.jsonl", *members), max_bytes=500_000)

    browser.open(target, "#a7")

    assert "of 8 attempts are listed without their turns" in browser.text("#notice")
    assert "not in the page" in browser.text("#detail")
    browser.open(target, "#a0")
    browser.wait("document.querySelectorAll('article').length === 1")


def test_figures_are_there_without_scripts(tmp_path: Path) -> None:
    text = page_of(a_run(tmp_path / "t.jsonl")).read_text()

    assert "<dt>mean reward</dt><dd>0.5258 ± 0.031</dd>" in text
    assert "<noscript>" in text


@pytest.mark.parametrize(
    ("text", "shown"), [("", "tiny · stop · empty · 0.25 s"), ("42", "tiny · stop · 0.25 s")]
)
def test_a_reply_that_is_no_answer_is_named_at_its_turn(text: str, shown: str) -> None:
    entry = PageEntry(a_trajectory(prompt_segment(None, 1), sampled_segment(0, 2, text=text)))

    document: Any = entry.document()

    assert document["segments"][1]["sampling"].startswith(shown)


def test_the_same_files_give_the_same_page(tmp_path: Path) -> None:
    source = a_run(tmp_path / "t.jsonl")

    assert page_of(source).read_bytes() == page_of(source).read_bytes()


def test_the_command_writes_a_page_that_tells_no_folders(tmp_path: Path) -> None:
    a_run(tmp_path / "run" / "trajectories.jsonl")
    target = tmp_path / "page.html"

    finished = strop("eval", "view", tmp_path / "run", "--html", target)

    assert finished.stdout == f"Wrote {target}: 24 attempts.\n"
    assert str(tmp_path) not in target.read_text()


def test_a_broken_line_leaves_no_page(tmp_path: Path) -> None:
    source = a_run(tmp_path / "t.jsonl")
    source.write_bytes(source.read_bytes() + b"{}\n")

    finished = strop("eval", "view", source, "--html", tmp_path / "page.html")

    assert finished.code == 1
    assert "line 25" in finished.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]
