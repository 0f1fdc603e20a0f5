"""Finds secrets before they are published; no finding ever repeats one (step: package).

It looks for forms that are hardly ever anything else: a false alarm teaches people to switch the
check off.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from strop.errors import SecretFoundError
from strop.hub.rules.tree import SourceMember
from strop.hub.rules.zips import StrictZip

_BLOCK_BYTES = 256 * 1024
_OVERLAP_BYTES = 4096
"""Longer than any form below, so that a secret across two blocks lies whole in one window."""

_FILE_PATTERNS = (
    (".env", ".env.*", "*.env"),
    (".env.example", ".env.sample", ".env.template", "example.env", "sample.env", "template.env"),
)
_KEY_FILES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".pypirc", ".netrc", ".git-credentials")

_START, _STOP = rb"(?<![A-Za-z0-9_-])", rb"(?![A-Za-z0-9_-])"
_FORMS: Sequence[tuple[str, bytes]] = (
    (
        "private key",
        rb"-----BEGIN (?:(?:RSA|DSA|EC|OPENSSH|ENCRYPTED|ANY) )?PRIVATE KEY-----"
        rb"(?=(?:\\r|\\n|\s|[\"'+,;])*[A-Za-z0-9+/=:-]{16})",
    ),
    ("PGP private key", rb"-----BEGIN PGP PRIVATE KEY BLOCK-----(?=\s+\S{4})"),
    ("AWS access key", rb"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    ("GitHub token", rb"gh[pousr]_[A-Za-z0-9]{36,251}"),
    ("GitHub token", rb"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("GitLab token", rb"gl(?:pat|oas|dt|rt|cbt|ptt|ft|agent|soat)-[A-Za-z0-9_-]{20,300}"),
    ("Slack token", rb"xox[abeoprs]-(?:[0-9]+-){1,3}[A-Za-z0-9-]{16,250}"),
    ("Slack token", rb"xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-f0-9]{32,128}"),
    ("Slack webhook", rb"https://hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/\w{20,}"),
    ("Anthropic key", rb"sk-ant-(?:api|admin|sid|oat)[0-9]{2}-[A-Za-z0-9_-]{60,160}"),
    ("OpenAI key", rb"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,250}"),
    ("OpenAI key", rb"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("OpenAI key", rb"sk-(?=[A-Za-z]*[0-9])(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{48}"),
    ("Hugging Face token", rb"(?:hf|api_org)_[A-Za-z]{34}"),
    ("Google API key", rb"AIza[A-Za-z0-9_-]{35}"),
    ("Google OAuth secret", rb"GOCSPX-[A-Za-z0-9_-]{28}"),
    ("Stripe key", rb"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{24,247}"),
    ("npm token", rb"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", rb"pypi-AgE[A-Za-z0-9_-]{50,1000}"),
    ("Strop token", rb"strop_[A-Za-z0-9_-]{32,128}"),
)
_NAMES = [name for name, _ in _FORMS]
_ANY = re.compile(
    b"|".join(
        b"(?P<f%d>%s)"
        % (
            number,
            form
            if name.startswith(("private", "PGP", "Slack w"))
            else _START + b"(?:" + form + b")" + _STOP,
        )
        for number, (name, form) in enumerate(_FORMS)
    )
)
_PLACEHOLDER = re.compile(
    rb"(.)\1{9}|EXAMPLE|xxxxx|XXXXX|0123456789|1234567890|abcdefghij", re.DOTALL
)
"""What stands in documentation instead of a secret."""


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
            if path not in allowed:
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
    secret, harmless = _FILE_PATTERNS
    is_env = any(fnmatchcase(name, form) for form in secret) and name not in harmless
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
    findings = []
    for match in _ANY.finditer(window, searched):
        if match.start() >= end:
            break
        if _PLACEHOLDER.search(match[0]) is None:
            number = line + window.count(b"\n", 0, match.start())
            kind = _NAMES[int((match.lastgroup or "f0")[1:])]
            findings.append(f"{path}:{number}: {kind}")
    return findings, max(end, searched)
