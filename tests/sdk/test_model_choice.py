"""What a run says of its models is checked before anything is asked."""

import subprocess
import sys
from typing import Any

import pytest

from strop.errors import ConfigError
from strop.model_choice import ModelChoice
from strop.run_file import RunFile

ENDPOINT = {"name": "m", "base_url": "http://127.0.0.1:8000/v1"}


def read(model: dict[str, Any], **tables: Any) -> RunFile:
    return RunFile.parse({"environments": [{"ref": "math-env"}], "model": model, **tables})


def refusal_of(model: dict[str, Any], **tables: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(ENDPOINT | model, **tables)
    return str(caught.value)


WHOLE: dict[str, Any] = {
    "api_key_env": "MY_KEY",
    "stream": True,
    "engine": "vllm",
    "max_tokens_field": "max_completion_tokens",
    "reasoning_field": "reasoning",
    "body": {"cache_salt": "v1", "nested": {"deep": [1, None]}},
    "headers": {"X-Team": "rl one"},
    "headers_env": {"X-Gateway-Key": "GATEWAY_KEY"},
    "affinity_header": "X-Session",
    "proxy": "http://proxy.test:3128",
    "ca_file": "authority.pem",
    "cert_file": "client.pem",
    "key_file": "client.key",
    "retry": {"try_count": 2, "base_s": 0.1, "longest_s": 1, "total_s": 9.5},
    "limits": {"connect_s": 1.0, "read_s": 2.0, "total_s": 3.0, "connection_count": 4},
}


def test_a_whole_choice_is_read_and_comes_back_equal_from_json() -> None:
    run = read(ENDPOINT | WHOLE, seats={"user": ENDPOINT | WHOLE})

    assert run.model == run.seats["user"]
    assert RunFile.parse(run.to_json()) == run
    assert run.to_json()["model"].items() >= (ENDPOINT | WHOLE).items()


@pytest.mark.parametrize(
    ("api", "variable"),
    [
        ("chat", "OPENAI_API_KEY"),
        ("completions", "OPENAI_API_KEY"),
        ("messages", "ANTHROPIC_API_KEY"),
        ("responses", "OPENAI_API_KEY"),
    ],
)
def test_the_key_is_where_users_of_the_api_have_it(api: Any, variable: str) -> None:
    tokenizer = "folder" if api == "completions" else None

    assert ModelChoice(api=api, tokenizer=tokenizer).key_variable == variable
    assert ModelChoice(api=api, tokenizer=tokenizer, api_key_env="MINE").key_variable == "MINE"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"api": "Chat"}, "model.api: Input should be 'chat', 'completions'"),
        ({"engine": "tgi"}, "model.engine: Input should be 'vllm', 'sglang' or 'llama.cpp'"),
        ({"base_url": "127.0.0.1:8000"}, "model.base_url: '127.0.0.1:8000' is no address"),
        ({"base_url": "ftp://there.test"}, "model.base_url: 'ftp://there.test' is no address"),
        ({"base_url": "http://ada:word@there.test"}, "in api_key_env"),
        ({"proxy": "proxy:3128"}, "model.proxy: 'proxy:3128' is no address"),
        ({"proxy": "http://ada:word@proxy.test"}, "write it into HTTP_PROXY"),
        ({"api_key_env": "sk-1234"}, "model.api_key_env: this is the name of a variable"),
        ({"headers": {"Authorization": "Bearer x"}}, "'Authorization' holds a secret"),
        ({"headers": {"X-Api-Key": "x"}}, "api_key_env or headers_env"),
        ({"headers": {"a b": "x"}}, "'a b' is no header"),
        ({"headers": {"a": "x\ny"}}, "'a' is no header of printable ASCII"),
        ({"headers": {"a": "ü"}}, "'a' is no header"),
        ({"headers": {"a": 3}}, "model.headers.a"),
        ({"headers_env": {"a": "no variable"}}, "the name of a variable"),
        ({"headers_env": {"": "A"}}, "'' is no name of a header"),
        ({"affinity_header": "x:y"}, "'x:y' is no name of a header"),
        ({"retry": {"try_count": 0}}, "model.retry.try_count"),
        ({"retry": {"tries": 1}}, "model.retry.tries: Extra inputs are not permitted"),
        ({"limits": {"read_s": 0}}, "model.limits.read_s"),
        ({"stream": True, "engine": "llama.cpp"}, "llama.cpp streams no exact token ids"),
        ({"stream": "yes"}, "model.stream"),
        ({"api": "completions"}, "completions needs tokenizer"),
        ({"key_file": "k"}, "key_file is the key of cert_file: name the certificate, too"),
        ({"tokenizer": "f"}, "tokenizer is for api = 'completions', and this one is 'chat'"),
        ({"api": "messages", "engine": "vllm"}, "engine is for api = 'chat'"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_with_its_place(model: dict[str, Any], told: str) -> None:
    assert told in refusal_of(model)


def test_no_secret_is_repeated() -> None:
    for model in (
        {"base_url": "http://ada:hidden@there.test"},
        {"proxy": "http://ada:hidden@proxy.test"},
        {"headers": {"authorization": "hidden"}},
    ):
        assert "hidden" not in refusal_of(model)


def test_all_that_does_not_go_together_is_named_at_once() -> None:
    told = refusal_of({"api": "responses", "engine": "vllm", "logprobs": True, "calls": "llama"})

    for name in ("engine", "logprobs", "calls"):
        assert f"{name} is for api" in told


def test_stops_that_an_api_cannot_take_are_refused_before_any_attempt() -> None:
    responses = ENDPOINT | {"api": "responses"}
    stop = {"stop": ["END"]}

    assert "takes no stop sequences" in refusal_of({"api": "responses"}, sampling=stop)
    assert "seats.user" in refusal_of({}, seats={"user": responses}, sampling=stop)
    assert read(responses).model.api == "responses"
    assert read(ENDPOINT | {"api": "messages"}, sampling=stop).sampling.stop == ["END"]


def test_checking_opens_no_socket_and_reads_no_file_that_is_named() -> None:
    code = """
import sys
from strop.run_file import RunFile
seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)))
model = {"name": "m", "base_url": "https://there.test/v1", "api": "completions",
         "tokenizer": "/there/is/none", "ca_file": "/nor/this", "api_key_env": "NOT_SET",
         "cert_file": "/there/is/none", "key_file": "/there/neither",
         "proxy": "http://proxy.test:1"}
RunFile.parse({"environments": [{"ref": "x"}], "model": model})
print([event for event, args in seen if event.startswith("socket.")],
      [args for event, args in seen if event == "open" and "/there" in str(args[0])])
"""

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert printed.strip() == "[] []"
