"""Every way to ask a model, from flags and from files, by the command against a real server."""

import asyncio
import json
import ssl
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from strop.trajectory_file import read_trajectories
from tests.model_server import Fault, ModelServer
from tests.sdk.cli.command import Finished, strop
from tests.sdk.models.chat_documents import said
from tests.sdk.models.http.peers import ProxyServer, listening

pytestmark = pytest.mark.usefixtures("site")

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """Answers with its question backwards: what the environment wants."""
    async with ModelServer() as running:
        yield running


async def evaluate(*arguments: str | Path, **variables: str) -> Finished:
    command = ("eval", "run", "first-env", "--json", *arguments)
    return await asyncio.to_thread(lambda: strop(*command, cwd=None, **variables))


def at(server: ModelServer, *arguments: str) -> tuple[str, ...]:
    return ("--model", "tiny", "--base-url", server.base_url, *arguments)


@pytest.mark.parametrize(
    ("api", "stream"),
    [("chat", True), ("messages", False), ("messages", True), ("responses", True)],
)
async def test_an_api_is_chosen_by_flag(server: ModelServer, api: str, stream: bool) -> None:
    flags = ["--api", api, *(["--stream"] if stream else [])]
    finished = await evaluate(
        *at(server, *flags, "-n", "3"), OPENAI_API_KEY="open", ANTHROPIC_API_KEY="anthropic"
    )

    assert finished.code == 0, finished.stderr
    assert finished.document["mean_reward"] == 1.0
    assert {call.path for call in server.calls} == {PATHS[api]}
    assert {bool(call.document.get("stream")) for call in server.calls} == {stream}
    keys = {call.headers.get("x-api-key") or call.headers["authorization"] for call in server.calls}
    assert keys == {"anthropic" if api == "messages" else "Bearer open"}


async def test_headers_fields_and_affinity_reach_the_server(server: ModelServer) -> None:
    flags = ("--header", "X-Team=rl one", "--body", "cache_salt=v1", "--body", "min_p=0.1")
    finished = await evaluate(
        *at(server, *flags, "--affinity-header", "X-Session", "-n", "3", "--group-size", "2"),
        "model.headers.x-more=more",
    )

    assert finished.code == 0, finished.stderr
    assert {call.headers["x-team"] for call in server.calls} == {"rl one"}
    assert {call.headers["x-more"] for call in server.calls} == {"more"}
    assert {call.document["cache_salt"] for call in server.calls} == {"v1"}
    assert {call.document["min_p"] for call in server.calls} == {0.1}
    # One for each attempt: the members of a group are apart, too.
    assert len({call.headers["x-session"] for call in server.calls}) == 6


async def test_tries_are_counted_and_a_limit_ends_a_call(server: ModelServer) -> None:
    server.faults.extend([Fault(503), Fault(503)])
    flags = at(server, "-n", "1", "model.retry.base_s=0.001")
    mended = await evaluate(*flags)
    server.faults.extend([Fault(503), Fault(503)])
    failed = await evaluate(*flags, "--tries", "2")
    server.faults.append(Fault(delay_s=60))
    late = await evaluate(*flags, "--tries", "1", "model.limits.read_s=0.2")

    assert mended.document["mean_reward"] == 1.0
    assert failed.document["failures"] == {"ModelUnavailableError": 1}
    assert late.document["failures"] == {"ModelUnavailableError": 1}
    assert [call.headers["x-strop-try"] for call in server.calls] == ["0", "1", "2", "0", "1", "0"]


async def test_replies_that_are_no_answer_are_told_by_kind(
    server: ModelServer, tmp_path: Path
) -> None:
    counted = {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    replies = {
        "truncated": said("ab", "length"),
        "filtered": said(None, "content_filter"),
        "reasoning_only": said(None, reasoning_content="hmm"),
        "empty": said(" \n") | counted,
    }
    server.faults.extend(Fault(body=each) for each in [*replies.values(), said(None) | counted])
    out = tmp_path / "out"
    command = ("eval", "run", "first-env", *at(server, "-n", "6", "--concurrency", "1"))
    ended = await asyncio.to_thread(lambda: strop(*command, "--out", out))
    viewed = strop("eval", "view", out)
    attempt = strop("eval", "view", out, "--task", "2", "--member", "0")
    strop("eval", "view", out, "--html", tmp_path / "page.html")

    odd = {"truncated": 1, "filtered": 1, "reasoning_only": 1, "empty": 2}
    report = json.loads((out / "report.json").read_text())["report"]
    assert report["odd_replies"] == odd, ended.stderr
    assert report["failures"] == {}
    for text in (ended.stdout, viewed.stdout):
        told = dict(line.rsplit(maxsplit=1) for line in text.splitlines() if " replies " in line)
        assert told == {f"{kind} replies": str(count) for kind, count in odd.items()}
    assert " · stop · reasoning_only · " in attempt.stdout
    page = (tmp_path / "page.html").read_text()
    assert "<dt>empty replies</dt><dd>2</dd>" in page


async def test_a_proxy_and_an_authority_lead_to_a_server_that_has_no_address_here(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("model.test").configure_cert(context)
    async with ModelServer(tls=context) as server:
        proxy = ProxyServer(server.port)
        async with listening(proxy.talk) as port:
            flags = ["--model", "tiny", "--base-url", "https://model.test/v1", "-n", "1"]
            flags += ["--proxy", f"http://127.0.0.1:{port}", "--tries", "1"]
            trusted = await evaluate(*flags, "--ca-file", tmp_path / "ca.pem")
            stranger = await evaluate(*flags)

    assert trusted.document["mean_reward"] == 1.0, trusted.stderr
    assert set(proxy.requests) == {"CONNECT model.test:443 HTTP/1.1"}
    assert stranger.document["failures"] == {"ModelRequestError": 1}
    (cause,) = stranger.document["causes"]
    assert "is not trusted" in cause


SEATS = """
    from strop import End, Environment, Episode, Task, reward

    class Talk(Episode):
        seats = {"policy": True, "user": False}

        async def setup(self):
            self.tell("user", "abc")
            self.due_seat = "user"

        async def respond(self, completion):
            if self.due_seat == "policy":
                return End()
            self.tell("policy", completion.text)
            self.due_seat = "policy"
            return []

    @reward(range=(0, 1), inline=True)
    def heard(trajectory):
        return float(trajectory.text == "abc")

    def load_environment():
        return Environment(tasks=[Task("1", "abc")], rewards=[heard], episode=Talk)
"""

SEATS_RUN = """
    [[environments]]
    ref = "first-env"

    [model]
    name = "tiny"
    base_url = "{base_url}"
    api = "responses"
    stream = true
    headers_env = {{ X-Gateway = "GATEWAY_KEY" }}

    [seats.user]
    name = "small"
    base_url = "{base_url}"
    api = "messages"
    api_key_env = "USER_KEY"
    headers = {{ X-Seat = "user" }}
    body = {{ top_k = 5 }}
    retry = {{ try_count = 2, base_s = 0.001 }}
"""


async def test_seats_of_a_file_have_models_of_their_own(
    server: ModelServer, site: Path, tmp_path: Path
) -> None:
    (site / "first_env.py").write_text(textwrap.dedent(SEATS))
    path = tmp_path / "run.toml"
    path.write_text(textwrap.dedent(SEATS_RUN.format(base_url=server.base_url)))
    server.faults.append(Fault(503))
    command = ("eval", "run", "--config", path, "--out", tmp_path / "out", "--json")
    secrets = {"GATEWAY_KEY": "for the gateway", "USER_KEY": "for the user"}
    unset = await asyncio.to_thread(strop, *command, USER_KEY="set")
    finished = await asyncio.to_thread(lambda: strop(*command, cwd=None, **secrets))

    assert "variable GATEWAY_KEY" in unset.error["message"]
    assert finished.document["mean_reward"] == 1.0, finished
    refused, user, policy = server.calls
    assert (refused.path, user.path, policy.path) == (
        "/v1/messages",
        "/v1/messages",
        "/v1/responses",
    )
    assert (user.headers["x-api-key"], user.headers["x-seat"]) == ("for the user", "user")
    assert (user.document["model"], user.document["top_k"]) == ("small", 5)
    assert policy.headers["x-gateway"] == "for the gateway"
    assert policy.document["stream"] is True
    assert {"x-seat", "x-api-key"}.isdisjoint(policy.headers)
    # What is kept names the variables, and never what is in them.
    kept = (tmp_path / "out" / "run.json").read_text()
    assert json.loads(kept)["run"]["seats"]["user"]["api"] == "messages"
    assert not any(secret in kept for secret in secrets.values())
    (trajectory,) = read_trajectories(tmp_path / "out" / "trajectories.jsonl")
    assert set(trajectory.seats) == {"policy", "user"}


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--api", "completions", "--tokenizer", "absent"], "config", "absent"),
        (["--api", "messages", "--engine", "vllm"], "config", "engine is for api = 'chat'"),
        (["--header", "no-value"], "usage", "is not NAME=VALUE"),
        (["--ca-file", "absent.pem"], "config", "absent.pem (ca_file) holds no certificates"),
        (["--api-key-env", "NOT_SET_HERE"], "config", "variable NOT_SET_HERE"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
async def test_what_cannot_be_asked_is_told_before_anything_is(
    arguments: list[str], code: str, told: str
) -> None:
    # Nobody listens there: whoever asked would tell of that.
    nowhere = ("--model", "tiny", "--base-url", "http://127.0.0.1:9/v1")
    finished = await evaluate(*nowhere, *arguments)

    assert (finished.error["code"], told in finished.error["message"]) == (code, True)


async def test_flags_stand_over_a_file_and_leave_the_rest_of_its_tables(
    server: ModelServer, tmp_path: Path
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        textwrap.dedent(
            f"""
            [[environments]]
            ref = "first-env"
            [model]
            name = "tiny"
            base_url = "{server.base_url}"
            api = "messages"
            headers = {{ X-A = "file", X-B = "file" }}
            body = {{ top_k = 1, note = "file" }}
            [run]
            tasks = 1
            """
        )
    )
    flags: list[Any] = ["--api", "chat", "--header", "X-B=flag", "--body", "top_k=2"]
    finished = await asyncio.to_thread(strop, "eval", "run", "--config", path, *flags, "--json")

    assert finished.code == 0, finished.stderr
    (call,) = server.calls
    assert (call.path, call.headers["x-a"], call.headers["x-b"]) == (PATHS["chat"], "file", "flag")
    assert (call.document["top_k"], call.document["note"]) == (2, "file")


async def test_a_run_that_asks_otherwise_is_another_run(
    server: ModelServer, tmp_path: Path
) -> None:
    flags = at(server, "-n", "2", "--out", str(tmp_path / "out"))
    assert (await evaluate(*flags)).code == 0
    refused = await evaluate(*flags, "--resume", "--body", "top_k=3")
    same = await evaluate(*flags, "--resume", "--stream", "--header", "X-A=1", "--tries", "3")

    assert "holds a run with another model." in refused.error["message"]
    assert same.document["attempt_count"] == 2, same.stderr
    assert len(server.calls) == 2


async def test_a_seat_that_the_environment_lacks_is_refused_before_any_call(
    server: ModelServer, site: Path, tmp_path: Path
) -> None:
    (site / "first_env.py").write_text(textwrap.dedent(SEATS))
    path = tmp_path / "run.toml"
    path.write_text(
        f"""[[environments]]
ref = "first-env"
[model]
name = "tiny"
base_url = "{server.base_url}"
[seats.usr]
name = "scripted:constant"
"""
    )
    command = ("eval", "run", "--config", path, "--out", tmp_path / "out", "--json")
    finished = await asyncio.to_thread(strop, *command)

    assert finished.code == 1
    assert "[seats.usr], but the environment's seats are policy, user" in finished.error["message"]
    assert not server.calls
    assert not (tmp_path / "out").exists()
