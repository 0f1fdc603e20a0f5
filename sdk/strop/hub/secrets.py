"""Finds secrets before they are published; no finding ever repeats one (step: package).

It looks for forms that are hardly ever anything else: a false alarm teaches people to switch the
check off.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from strop.errors import SecretFoundError
from strop.hub.rules.tree import SourceMember
from strop.hub.rules.zips import StrictZip

_BLOCK_BYTES = 256 * 1024
_OVERLAP_BYTES = 4096
"""Longer than any form below, so that a secret across two blocks lies whole in one window."""

_HARMLESS_ENV_FILES = (".env.example", ".env.sample", ".env.template")
_MAX_FINDINGS = 20
"""In one block of a file: enough to show that it is full of them."""
_NEWLINE = b"\n"
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_KEY_FILES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".pypirc", ".netrc", ".git-credentials")

_PEM_BODY = rb"(?:\\r)?(?:\\n|\r?\n)[\s\"'+\\]*[A-Za-z0-9+/=:-]{3}"
"""A key follows its header on the next line, be it real or written as an escape."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A kind of secret: it begins with one of `heads`, and what follows matches `tail`."""

    kind: str
    heads: tuple[bytes, ...]
    tail: re.Pattern[bytes]
    is_word: bool
    """Whether it must not be part of a longer word."""


def _form(kind: str, heads: str, tail: bytes, *, is_word: bool = True) -> _Form:
    end = rb"(?![A-Za-z0-9_-])" if is_word else b""
    return _Form(kind, tuple(heads.encode().split(b"|")), re.compile(tail + end), is_word)


_FORMS = (
    _form(
        "private key",
        "-----BEGIN ",
        rb"(?:(?:RSA|DSA|EC|OPENSSH|ENCRYPTED|ANY) )?PRIVATE KEY-----" + _PEM_BODY,
        is_word=False,
    ),
    _form(
        "PGP private key",
        "-----BEGIN PGP ",
        rb"PRIVATE KEY BLOCK-----(?:\s|\\n|\\r)",
        is_word=False,
    ),
    _form("AWS access key", "AKIA|ASIA", rb"[A-Z0-9]{16}"),
    _form("GitHub token", "ghp_|gho_|ghu_|ghs_|ghr_", rb"[A-Za-z0-9]{36,251}"),
    _form("GitHub token", "github_pat_", rb"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _form(
        "GitLab token",
        "glpat-|gloas-|gldt-|glrt-|glcbt-|glptt-|glft-|glagent-|glsoat-",
        rb"[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
    ),
    _form("Slack token", "xoxa-|xoxb-|xoxe-|xoxp-|xoxr-|xoxs-", rb"[0-9]+-[A-Za-z0-9-]{20,250}"),
    _form("Slack token", "xapp-", rb"[0-9]-[A-Z0-9]+-[0-9]+-[a-f0-9]{32,128}"),
    _form(
        "Slack webhook",
        "https://hooks.slack.com/services/",
        rb"T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/\w{20,}",
        is_word=False,
    ),
    _form("Anthropic key", "sk-ant-", rb"(?:api|admin|sid|oat)[0-9]{2}-[A-Za-z0-9_-]{40,160}"),
    _form("OpenAI key", "sk-proj-|sk-svcacct-|sk-admin-", rb"[A-Za-z0-9_-]{40,250}"),
    _form("OpenAI key", "sk-", rb"[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48}"),
    _form("Hugging Face token", "hf_|api_org_", rb"[A-Za-z0-9]{34,40}"),
    _form("Google API key", "AIza", rb"[A-Za-z0-9_-]{35}"),
    _form("Google OAuth secret", "GOCSPX-", rb"[A-Za-z0-9_-]{28}"),
    _form("Stripe key", "sk_live_|sk_test_|rk_live_|rk_test_", rb"[A-Za-z0-9]{24,247}"),
    _form("npm token", "npm_", rb"[A-Za-z0-9]{36}"),
    _form("PyPI token", "pypi-AgE", rb"[A-Za-z0-9_-]{50,1000}"),
    _form("Strop token", "strop_", rb"[A-Za-z0-9_-]{40,128}"),
)


def find_secrets(
    folder: Path, members: Iterable[SourceMember], allowed: Collection[str] = ()
) -> list[str]:
    """What in `members` of `folder` looks like a secret, as ``path:line: kind`` lines.

    Args:
        folder: The tree.
        members: What of it is shipped.
        allowed: Paths that are not looked at.
    """
    findings: list[str] = []
    for member in members:
        if member.path in allowed:
            continue
        findings += _name_findings(member.path)
        if member.target is None:
            with (folder / member.path).open("rb") as stream:
                findings += _content_findings(member.path, _blocks(stream))
    return findings


def find_wheel_secrets(wheel: Path, allowed: Collection[str] = ()) -> list[str]:
    """The same for the members of a wheel, which can hold files that its source does not."""
    findings: list[str] = []
    with wheel.open("rb") as stream:
        archive = StrictZip(stream, wheel.name)
        for path, member in archive.members.items():
            # A wheel may leave out the folder (`src`) in which its source has a file.
            if not any(f"/{one}".endswith(f"/{path}") for one in allowed):
                findings += _name_findings(path)
                findings += _content_findings(path, archive.chunks(member))
    return findings


def refuse_secrets(findings: Sequence[str], what: str) -> None:
    """Stop a push that would publish secrets.

    Raises:
        SecretFoundError: There are `findings`; the message lists all of them.
    """
    if findings:
        lines = "\n".join(f"  - {finding}" for finding in findings)
        raise SecretFoundError(
            f"{what} would publish what looks like secrets:\n{lines}\n"
            "Remove them and revoke what was real. `--allow-secret PATH` ships a file all the same."
        )


def _name_findings(path: str) -> list[str]:
    name = path.rpartition("/")[2].lower()
    is_env = name.startswith(".env") and name not in _HARMLESS_ENV_FILES
    return [f"{path}: a file for secrets"] if is_env or name in _KEY_FILES else []


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    while block := stream.read(_BLOCK_BYTES):
        yield block


def _content_findings(path: str, blocks: Iterable[bytes]) -> list[str]:
    """Findings in contents that come in blocks, of which two at most are held."""
    findings: list[str] = []
    window, line, searched = b"", 1, 0
    for block in blocks:
        window += block
        if len(window) < _BLOCK_BYTES:
            continue
        found, searched = _search(path, window, line, searched, is_last=False)
        findings += found
        cut = max(0, len(window) - 2 * _OVERLAP_BYTES)
        line += window.count(b"\n", 0, cut)
        window, searched = window[cut:], max(0, searched - cut)
    found, _ = _search(path, window, line, searched, is_last=True)
    return findings + found


def _search(
    path: str, window: bytes, line: int, searched: int, *, is_last: bool
) -> tuple[list[str], int]:
    """Findings from byte `searched` on, and how far the search came.

    A match that begins in the last bytes may go on in the next block: it is left for then.
    """
    end = len(window) if is_last else len(window) - _OVERLAP_BYTES
    places = {
        place: form.kind
        for form in _FORMS
        for head in form.heads
        for place in _occurrences(window, head, searched, end)
        if _is_secret(form, head, window, place)
    }
    findings = [
        f"{path}:{line + window.count(_NEWLINE, 0, place)}: {places[place]}"
        for place in sorted(places)[:_MAX_FINDINGS]
    ]
    return findings, max(end, searched)


def _occurrences(window: bytes, head: bytes, start: int, end: int) -> Iterator[int]:
    # Searching for plain bytes first is ten times faster than one expression for all forms.
    place = window.find(head, start)
    while 0 <= place < end:
        yield place
        place = window.find(head, place + 1)


def _is_secret(form: _Form, head: bytes, window: bytes, place: int) -> bool:
    is_inside_word = form.is_word and place > 0 and window[place - 1] in _WORD
    return not is_inside_word and form.tail.match(window, place + len(head)) is not None
