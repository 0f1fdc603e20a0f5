"""One request to a hub: who may see the token, what is tried again, what each fault is called."""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from strop.config import normalize_hub_url
from strop.errors import HubError, HubRefusedError, HubUnreachableError, NotAHubError
from strop.hub.wire import HUB_HEADER, REQUEST_ID_HEADER, Problem

_PASSING_STATUSES = {429, 502, 503, 504}
"""Statuses that another try may not meet again."""
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_MAX_BACKOFF_S = 20.0
_CONNECT_TIMEOUT_S = 10.0
_MAX_REDIRECTS = 5
_MAX_PROBLEM_BYTES = 1 << 20
MAX_ANSWER_BYTES = 64 << 20
"""Of an answer that is read whole; files are streamed and have limits of their own."""

RequestMaker = Callable[[], httpx.Request]


class Transport:
    """Sends requests to one hub and to wherever that hub redirects a download."""

    def __init__(
        self, base_url: str, token: str | None, *, timeout_s: float, attempt_count: int
    ) -> None:
        self.base_url = normalize_hub_url(base_url)
        self.has_token = token is not None
        self.attempt_count = attempt_count
        self._token = token
        self._timeout_s = timeout_s
        self._connect_timeout_s = min(timeout_s, _CONNECT_TIMEOUT_S)
        timeout = httpx.Timeout(timeout_s, connect=self._connect_timeout_s)
        # A proxy of the environment knows nothing of what runs on this machine.
        own_machine = dict.fromkeys(f"all://{host}" for host in _LOOPBACK_HOSTS)
        self._client = httpx.Client(timeout=timeout, follow_redirects=False, mounts=own_machine)

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def build(self, method: str, url: str, **content: Any) -> httpx.Request:
        """A request; it carries the token only when `url` lies on this hub."""
        headers = dict(content.pop("headers", None) or {})
        headers["user-agent"] = "strop"
        if self._token is not None and self._is_own(url):
            headers["authorization"] = f"Bearer {self._token}"
        return self._client.build_request(method, url, headers=headers, **content)

    def send(self, make: RequestMaker) -> httpx.Response:
        """The hub's answer, read whole; faults that may pass are tried again with backoff.

        Raises:
            HubUnreachableError: nobody answered, or only a server in front of the hub.
            NotAHubError: something answered that is no hub.
            HubRefusedError: the hub answered with an error.
        """
        with self.stream(make) as response, self.faults():
            # Byte by byte, an answer could last for ever without one long silence.
            return self._read_whole(response, time.monotonic() + 2 * self._timeout_s)

    @contextmanager
    def stream(self, make: RequestMaker, *, may_leave: bool = False) -> Iterator[httpx.Response]:
        """The answer with its body still to be read; `may_leave` follows to other hosts."""
        response = self._try(make)
        try:
            response = self._follow(response, may_leave)
            self._check(response, is_foreign=may_leave and not self._is_own(str(response.url)))
            yield response
        finally:
            response.close()

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Give whatever the connection does wrong a name that says what to do."""
        try:
            yield
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        except httpx.DecodingError as error:
            raise NotAHubError(
                f"{self.base_url} answers with a body that cannot be read."
            ) from error
        except (httpx.InvalidURL, ValueError) as error:
            raise NotAHubError(
                f"{self.base_url} is, or leads to, an address that cannot be read ({error}). "
                "Check the address, or tell the hub's operator."
            ) from error

    def _try(self, make: RequestMaker) -> httpx.Response:
        last = self.attempt_count
        for attempt in range(1, last + 1):
            try:
                with self.faults():
                    response = self._client.send(make(), stream=True)
            except HubUnreachableError as error:
                if attempt == last or _is_lasting(error):
                    raise
                self.wait(attempt)
                continue
            if response.status_code not in _PASSING_STATUSES or attempt == last:
                return response
            response.close()
            self.wait(attempt, response.headers.get("retry-after"))
        raise AssertionError("the loop returns or raises in its last round")

    def wait(self, attempt: int, retry_after: str | None = None) -> None:
        """Sleep before the try after the `attempt`-th, counted from 1."""
        backoff_s = 0.25 * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311 - jitter
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            backoff_s = max(backoff_s, float(retry_after))
        time.sleep(min(backoff_s, _MAX_BACKOFF_S))

    def _follow(self, response: httpx.Response, may_leave: bool) -> httpx.Response:
        for _ in range(_MAX_REDIRECTS):
            if not response.has_redirect_location:
                return response
            response.close()
            target = response.next_request
            assert target is not None
            is_read = target.method in ("GET", "HEAD")
            with self.faults():
                is_own = self._is_own(str(target.url))
            if not is_read or not (may_leave or is_own):
                where = target.url.copy_with(query=None, fragment=None)
                raise NotAHubError(
                    f"{self.base_url} sends on to {where}, where your token does not belong. "
                    "If your hub has moved there, give that address with --hub or `strop login`."
                )
            headers = {k: v for k, v in target.headers.items() if k in ("range", "if-range")}
            with self.faults():
                following = self.build(target.method, str(target.url), headers=headers)
                response = self._client.send(following, stream=True)
        response.close()
        raise NotAHubError(f"{self.base_url} redirects in a circle. Check the hub's address.")

    def _check(self, response: httpx.Response, *, is_foreign: bool) -> None:
        status = response.status_code
        is_hub = HUB_HEADER in response.headers
        if not is_hub and status in _PASSING_STATUSES:
            raise HubUnreachableError(
                f"A server in front of {self.base_url} answers {_named(status)}: "
                "the hub behind it is down or overloaded. Try again later."
            )
        if not is_hub and not is_foreign:
            raise NotAHubError(
                f"{self.base_url} answers ({_named(status)}, "
                f"{response.headers.get('content-type', 'no content type')}) but is no Strop hub. "
                "Check the address that --hub, STROP_HUB or `strop config` gives."
            )
        if status >= 400:
            refusal = self._refusal(response)
            parts = urlsplit(self.base_url)
            # A hub that serves below the path knows its own addresses there.
            is_elsewhere = bool(parts.path) and f"{parts.path}/api/" in str(refusal)
            if is_elsewhere and status == HTTPStatus.NOT_FOUND:
                raise NotAHubError(
                    f"{self.base_url} is no address of a hub; the one that answers there is "
                    f"{parts.scheme}://{parts.netloc}. Leave {parts.path} out."
                )
            raise refusal

    def _refusal(self, response: httpx.Response) -> HubRefusedError:
        status = response.status_code
        request_id = response.headers.get(REQUEST_ID_HEADER)
        with self.faults():
            body = b"".join(_capped(response))
        try:
            problem = Problem.model_validate(json.loads(body))
        except (ValueError, ValidationError, RecursionError):
            return HubRefusedError(
                f"{self.base_url} answers {_named(status)} and does not say why. "
                "Try again later, or ask its operator.",
                status=status,
                code="unexplained",
                request_id=request_id,
            )
        lines = "".join(f"\n  - {line}" for line in problem.problems if line not in problem.detail)
        detail = f"{problem.detail}{lines}" + self._advice(status)
        return HubRefusedError(
            detail, status=status, code=problem.code, request_id=problem.request_id or request_id
        )

    def _advice(self, status: int) -> str:
        if status == HTTPStatus.UNAUTHORIZED:
            return f" Run `strop login {self.base_url}` with a valid token."
        return ""

    def _unreachable(self, error: httpx.TransportError) -> HubError:
        if isinstance(error, httpx.UnsupportedProtocol):
            return NotAHubError(f"{self.base_url} names an address that is neither http nor https.")
        if isinstance(error, httpx.RemoteProtocolError) and "illegal" in str(error).lower():
            return NotAHubError(f"{self.base_url} does not speak HTTP. Check the hub's address.")
        if isinstance(error, httpx.ConnectTimeout):
            cause = f"did not take the connection within {self._connect_timeout_s:g} s"
        elif isinstance(error, httpx.TimeoutException):
            cause = f"did not answer within {self._timeout_s:g} s"
        elif isinstance(error, httpx.ConnectError) and "CERTIFICATE" in str(error).upper():
            cause = f"shows a certificate that is not trusted ({error})"
        elif isinstance(error, httpx.ConnectError) and "SSL" in str(error).upper():
            cause = f"does not speak TLS as it should ({error}); is it http:// instead?"
        elif isinstance(error, httpx.ConnectError):
            cause = f"cannot be reached ({error})"
        else:
            cause = f"broke the connection off ({error or type(error).__name__})"
        return HubUnreachableError(
            f"The hub {self.base_url} {cause}. Check the address, and that the hub runs."
        )

    def _read_whole(self, response: httpx.Response, deadline: float) -> httpx.Response:
        """The answer with its body unpacked; `httpx.Response.read` knows no limit."""
        chunks, size_bytes = [], 0
        for chunk in response.iter_bytes():
            size_bytes += len(chunk)
            if size_bytes > MAX_ANSWER_BYTES:
                raise NotAHubError(
                    f"{self.base_url} answers with more than {MAX_ANSWER_BYTES} bytes, as no hub "
                    "does. Check the hub's address."
                )
            if time.monotonic() > deadline:
                raise HubUnreachableError(
                    f"The hub {self.base_url} did not end its answer within "
                    f"{2 * self._timeout_s:g} s. Try again later, or ask its operator."
                )
            chunks.append(chunk)
        headers = response.headers.copy()
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        return httpx.Response(
            response.status_code,
            headers=headers,
            content=b"".join(chunks),
            request=response.request,
        )

    def _is_own(self, url: str) -> bool:
        own, other = urlsplit(self.base_url), urlsplit(url)
        return (own.scheme, own.hostname, _port(own)) == (
            other.scheme,
            other.hostname,
            _port(other),
        ) and (other.path + "/").startswith(own.path + "/")


def _port(parts: Any) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _is_lasting(error: HubUnreachableError) -> bool:
    # Whoever was silent for the whole time limit is not waited for several times over.
    is_silent = isinstance(error.__cause__, httpx.TimeoutException)
    return is_silent or "certificate" in str(error) or "speak TLS" in str(error)


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _capped(response: httpx.Response) -> Iterator[bytes]:
    size_bytes = 0
    for chunk in response.iter_bytes():
        size_bytes += len(chunk)
        if size_bytes > _MAX_PROBLEM_BYTES:
            return
        yield chunk
