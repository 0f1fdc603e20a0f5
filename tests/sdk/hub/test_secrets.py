"""Secrets are found by form, named by place, and never repeated."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.errors import SecretFoundError
from strop.hub.secrets import find_secrets, find_wheel_secrets, refuse_secrets
from strop.hub.source import list_source
from tests.sdk.hub.forged_zip import forge, wheel_contents, wheel_parts, write

MIXED = "a1B2c3D4e5F6g7H8i9J0" * 20
HEX = "0123456789abcdef" * 8
# Pieces are joined here, so that no scanner takes this file for a leak.
SECRETS = {
    "private key": "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBg\n",
    "RSA private key": "-----BEGIN RSA " + "PRIVATE KEY-----\r\nMIIEvQIBADANBg\n",
    "encrypted private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
    "OpenSSH private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n",
    "key in a JSON string": '"-----BEGIN ' + 'PRIVATE KEY-----\\nMIIEvQIBADANBg"',
    "key in Python strings": '"-----BEGIN ' + 'PRIVATE KEY-----\\n"\n    "MIIEvQIBADANBg"',
    "PGP private key": "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\nlQdGBF",
    "AWS": "AKIA" + "IOSFODNN7ABCDEFG",
    "AWS session": "ASIA" + "IOSFODNN7ABCDEFG",
    "GitHub": "ghp_" + MIXED[:36],
    "GitHub app": "ghs_" + MIXED[:36],
    "GitHub fine-grained": "github_pat_" + MIXED[:22] + "_" + MIXED[:59],
    "GitLab": "glpat-" + MIXED[:20],
    "Slack": "xoxb-" + "123456789012-123456789012-" + MIXED[:24],
    "Slack app": "xapp-" + "1-A0123456789-1234567890123-" + HEX[:64],
    "Slack webhook": "https://hooks.slack.com/services/" + "T0123ABCD/B0123ABCD/" + MIXED[:24],
    "OpenAI": "sk-proj-" + MIXED[:80],
    "OpenAI old": "sk-" + MIXED[:20] + "T3Blbk" + "FJ" + MIXED[:20],
    "OpenAI oldest": "sk-" + MIXED[:48],
    "Anthropic": "sk-ant-" + "api03-" + MIXED[:93] + "AA",
    "Hugging Face": "hf_" + MIXED[:34],
    "Google": "AIza" + MIXED[:35],
    "Google OAuth": "GOCSPX-" + MIXED[:28],
    "Stripe": "sk_live_" + MIXED[:24],
    "npm": "npm_" + MIXED[:36],
    "PyPI": "pypi-AgE" + MIXED[:100],
    "Strop": "strop_" + MIXED[:43] + "abc123",
}
HARMLESS = {
    "question about a key": 'if "-----BEGIN ' + 'PRIVATE KEY-----" in text:\n    raise ValueError',
    "public key": "-----BEGIN PUBLIC KEY-----\nMIIBIjANBg\n",
    "certificate": "-----BEGIN CERTIFICATE-----\nMIIBIjANBg\n",
    "prefix alone": "tokens begin with ghp_, hf_, sk-, AKIA or strop_",
    "inside a word": "x" + "ghp_" + MIXED[:36],
    "too long": "AKIA" + "IOSFODNN7ABCDEFGH",
    "css class": "sk-button-large-primary-with-icon",
    "identifier": "strop_environment_of_the_hub",
    "digest": "sha256:" + HEX[:64],
    "variable": "OPENAI_API_KEY = os.environ['OPENAI_API_KEY']",
    "base64": "iVBORw0KGgoAAAANSUhEUgAA" * 40,
    "task": "ask-" + MIXED[:48],
}


def scan(folder: Path, content: str | bytes, name: str = "a.txt") -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return find_secrets(folder, list_source(folder))


@pytest.mark.parametrize("quote", ["{}", 'key = "{}"\n', "TOKEN={}\n", "({})", '\\"{}\\"'])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_each_form_is_found_and_not_repeated(tmp_path: Path, secret: str, quote: str) -> None:
    findings = scan(tmp_path, "first\n\n" + quote.replace("{}", secret))

    assert len(findings) == 1
    assert findings[0].startswith("a.txt:3: ")
    assert secret[12:] not in findings[0]


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_what_only_resembles_a_secret_is_left_alone(tmp_path: Path, text: str) -> None:
    assert scan(tmp_path, text) == []


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "d/.ENV", ".envrc", "id_rsa", "home/id_ed25519", ".pypirc"]
)
def test_files_for_secrets_are_found_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)

    assert scan(tmp_path, "", name) == [f"{name}: a file for secrets"]


@pytest.mark.parametrize("name", [".env.example", ".env.sample", "environment", "id_rsa.pub"])
def test_files_that_only_show_the_form_are_left_alone(tmp_path: Path, name: str) -> None:
    assert scan(tmp_path, "TOKEN=\n", name) == []


def test_an_example_with_a_real_token_is_found_all_the_same(tmp_path: Path) -> None:
    assert scan(tmp_path, SECRETS["Strop"], ".env.example") == [".env.example:1: Strop token"]


def test_an_allowed_path_is_not_looked_at(tmp_path: Path) -> None:
    scan(tmp_path, SECRETS["npm"], "allowed.txt")
    scan(tmp_path, SECRETS["npm"], ".env")
    scan(tmp_path, SECRETS["npm"], "other.txt")
    members = list_source(tmp_path)

    assert find_secrets(tmp_path, members, {"allowed.txt", ".env"}) == ["other.txt:1: npm token"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    scan(tmp_path, SECRETS["npm"])
    (tmp_path / "link").symlink_to("a.txt")

    assert find_secrets(tmp_path, list_source(tmp_path)) == ["a.txt:1: npm token"]


@pytest.mark.parametrize("offset", [0, 1, 4096, 262_144 - 5, 262_144, 262_144 - 4096, 600_000])
def test_a_secret_is_found_once_wherever_the_blocks_of_the_scan_meet(
    tmp_path: Path, offset: int
) -> None:
    filler = ("x" * 79 + "\n") * 10_000
    content = filler[:offset] + "\n" + SECRETS["PyPI"] + "\n" + filler

    line = filler[:offset].count("\n") + 2
    assert scan(tmp_path, content) == [f"a.txt:{line}: PyPI token"]


@settings(max_examples=25, deadline=None)
@given(offset=st.integers(0, 300_000), count=st.integers(1, 3))
def test_every_secret_of_a_long_file_is_found(
    tmp_path_factory: pytest.TempPathFactory, offset: int, count: int
) -> None:
    folder = tmp_path_factory.mktemp("maze")
    content = ("\n" + "x" * offset + " " + SECRETS["npm"]) * count

    assert scan(folder, content) == [f"a.txt:{line + 2}: npm token" for line in range(count)]


def test_a_file_full_of_secrets_does_not_fill_the_screen_or_the_day(tmp_path: Path) -> None:
    started_at = time.monotonic()

    findings = scan(tmp_path, (SECRETS["private key"] + "\n") * 50_000)

    assert 20 <= len(findings) <= 400
    assert time.monotonic() - started_at < 120


def test_binary_files_are_scanned_too(tmp_path: Path) -> None:
    content = b"\0\xff\n" * 7 + SECRETS["AWS"].encode() + b"\0"

    assert scan(tmp_path, content) == ["a.txt:8: AWS access key"]


def test_a_wheel_is_scanned_for_what_its_source_does_not_have(tmp_path: Path) -> None:
    files = wheel_contents() | {
        "maze_env/made.py": SECRETS["GitHub"].encode(),
        "maze_env/.env": b"",
        "maze_env/key.pem": SECRETS["private key"].encode(),
    }
    wheel = write(tmp_path, forge(wheel_parts(files)))

    findings = find_wheel_secrets(wheel, {"src/maze_env/key.pem"})

    assert findings == ["maze_env/made.py:1: GitHub token", "maze_env/.env: a file for secrets"]


def test_a_refusal_lists_everything_and_says_what_to_do() -> None:
    with pytest.raises(SecretFoundError) as caught:
        refuse_secrets(["a:1: npm token", ".env: a file for secrets"], "maze")

    assert "a:1: npm token" in str(caught.value)
    assert "--allow-secret PATH" in str(caught.value)
    refuse_secrets([], "maze")


def test_the_scanner_does_not_find_itself() -> None:
    import strop.hub

    folder = Path(strop.hub.__file__).parent

    assert find_secrets(folder, list_source(folder)) == []
