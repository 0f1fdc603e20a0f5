"""Whatever answers instead of a healthy hub gets a typed error that says what to do."""

from collections.abc import Callable

import pytest

from strop.errors import HubError, HubRefusedError, HubUnreachableError, NotAHubError
from strop.hub.client import HubClient
from tests.sdk.loopback import (
    HUB,
    Request,
    drip,
    listen_silently,
    reply,
    serve,
    silent_server,
    unused_address,
)

WHO = {
    "user": "ada",
    "is_admin": False,
    "owners": ["ada"],
    "scopes": ["read"],
    "limited_to": None,
    "expires_at": None,
}
TOKEN = "strop_secret-token"


def ask(url: str, *, timeout_s: float = 60, attempt_count: int = 1) -> str:
    with HubClient(url, TOKEN, timeout_s=timeout_s, attempt_count=attempt_count) as client:
        return client.whoami().user


def in_turn(*answers: bytes | None) -> Callable[[Request], bytes | None]:
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def test_a_hub_that_is_down_is_unreachable() -> None:
    url = unused_address()

    with pytest.raises(HubUnreachableError, match="cannot be reached") as caught:
        ask(url)

    assert url in str(caught.value)


def test_a_hub_that_never_answers_is_unreachable_in_time() -> None:
    with listen_silently() as url, pytest.raises(HubUnreachableError, match=r"within 0\.3 s"):
        ask(url, timeout_s=0.3)


def test_a_hub_that_is_silent_for_the_whole_time_is_not_asked_again() -> None:
    with silent_server() as server:
        with pytest.raises(HubUnreachableError):
            ask(server.url, timeout_s=0.3, attempt_count=4)
        assert server.call_count() == 1


def test_an_answer_that_comes_byte_by_byte_ends_in_time() -> None:
    with (
        drip(reply(200, b"", length=100_000)) as url,
        pytest.raises(HubUnreachableError, match=r"did not end its answer within 3 s"),
    ):
        # Between two bytes there may be any pause that is shorter than this.
        ask(url, timeout_s=1.5)


def test_a_connection_that_is_cut_is_named() -> None:
    with (
        serve(lambda request: None) as server,
        pytest.raises(HubUnreachableError, match="broke the connection off"),
    ):
        ask(server.url)


def test_a_body_that_is_cut_is_named() -> None:
    with (
        serve(lambda request: reply(200, WHO, length=5000)) as server,
        pytest.raises(HubUnreachableError, match="broke the connection off"),
    ):
        ask(server.url)


def test_a_web_page_is_no_hub() -> None:
    page = reply(200, "<html>Welcome</html>", {"content-type": "text/html"})
    with (
        serve(lambda request: page) as server,
        pytest.raises(NotAHubError, match=r"text/html.*no Strop hub"),
    ):
        ask(server.url)


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_error_of_something_else_is_no_hub(status: int) -> None:
    with (
        serve(lambda request: reply(status, "no", {})) as server,
        pytest.raises(NotAHubError, match=str(status)),
    ):
        ask(server.url)


def test_something_that_speaks_no_http_is_no_hub() -> None:
    with (
        serve(lambda request: b"220 mail.example ready\r\n\r\n") as server,
        pytest.raises(NotAHubError, match="does not speak HTTP"),
    ):
        ask(server.url)


def test_tls_where_there_is_none_says_so() -> None:
    with (
        serve(lambda request: b"HTTP/1.1 400 Bad\r\n\r\n", is_eager=True) as server,
        pytest.raises(HubUnreachableError, match="speak TLS"),
    ):
        ask(server.url.replace("http:", "https:"))


def test_a_proxy_without_its_hub_is_unreachable_and_not_foreign() -> None:
    with (
        serve(lambda request: reply(502, "<html>Bad gateway</html>", {})) as server,
        pytest.raises(HubUnreachableError, match="in front of"),
    ):
        ask(server.url)


@pytest.mark.parametrize(
    "fault", [None, reply(503), reply(502, "", {}), reply(429, "", HUB | {"retry-after": "0"})]
)
def test_a_passing_fault_is_tried_again(fault: bytes | None) -> None:
    with serve(in_turn(fault, reply(200, WHO))) as server:
        assert ask(server.url, attempt_count=2) == "ada"
        assert len(server.requests) == 2


def test_a_lasting_fault_is_tried_a_bounded_number_of_times() -> None:
    with serve(lambda request: reply(503, "{}")) as server:
        with pytest.raises(HubRefusedError):
            ask(server.url, attempt_count=3)
        assert len(server.requests) == 3


def test_a_refusal_is_not_tried_again_and_keeps_code_and_request_id() -> None:
    problem = {
        "title": "Wrong",
        "status": 422,
        "detail": "The manifest is wrong.",
        "code": "invalid_manifest",
        "request_id": "r-7",
        "problems": ["no category", "no license"],
    }
    with serve(lambda request: reply(422, problem)) as server:
        with pytest.raises(HubRefusedError) as caught:
            ask(server.url, attempt_count=3)
        assert len(server.requests) == 1

    assert (caught.value.status, caught.value.code) == (422, "invalid_manifest")
    for part in ("The manifest is wrong.", "no category", "no license", "r-7"):
        assert part in str(caught.value)


def test_a_refused_token_leads_to_login() -> None:
    problem = {"title": "t", "status": 401, "detail": "Not valid.", "code": "token_invalid"}
    with (
        serve(lambda request: reply(401, problem)) as server,
        pytest.raises(HubRefusedError, match="strop login http"),
    ):
        ask(server.url)


@pytest.mark.parametrize("body", ["", "<html>", "[]", "{}"])
def test_an_error_without_a_reason_still_has_a_request_id(body: str) -> None:
    with (
        serve(lambda request: reply(500, body)) as server,
        pytest.raises(HubRefusedError, match=r"does not say why.*r-1") as caught,
    ):
        ask(server.url)

    assert caught.value.code == "unexplained"


@pytest.mark.parametrize("body", ["", "{}", "[1]", '{"user": 7}'])
def test_an_answer_of_another_shape_asks_for_matching_versions(body: str) -> None:
    with (
        serve(lambda request: reply(200, body)) as server,
        pytest.raises(HubError, match=r"no WhoAmI.*same version"),
    ):
        ask(server.url)


def test_a_redirect_on_the_hub_is_followed_with_the_token() -> None:
    def answer(request: Request) -> bytes:
        if request.path == "/new":
            return reply(200, WHO)
        return reply(307, headers=HUB | {"location": "/new"})

    with serve(answer) as server:
        assert ask(server.url) == "ada"
        assert server.requests[1].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_redirect_to_another_server_never_takes_the_token_along() -> None:
    with serve(lambda request: reply(200, WHO)) as other:
        away = reply(307, headers=HUB | {"location": f"{other.url}/api?signature=abc"})
        with (
            serve(lambda request: away) as server,
            pytest.raises(NotAHubError, match="your token does not belong") as caught,
        ):
            ask(server.url)
        assert other.requests == []
        assert "signature" not in str(caught.value)


def test_a_circle_of_redirects_ends() -> None:
    with (
        serve(lambda request: reply(302, headers=HUB | {"location": "/again"})) as server,
        pytest.raises(NotAHubError, match="in a circle"),
    ):
        ask(server.url)


def test_a_prefix_that_is_another_site_on_the_same_host_gets_no_token() -> None:
    away = reply(307, headers=HUB | {"location": "/evil/whoami"})
    with serve(lambda request: away) as server:
        with pytest.raises(NotAHubError, match="does not belong"):
            ask(f"{server.url}/hub")
        assert len(server.requests) == 1


def test_the_proxy_of_the_environment_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", unused_address())
    monkeypatch.delenv("no_proxy", raising=False)
    with serve(lambda request: reply(200, WHO)) as server:
        assert ask(server.url) == "ada"
