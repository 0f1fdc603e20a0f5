"""A client certificate from a run file or flags, against real servers that demand one."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from strop import Environment, Task, reward
from strop.cli.run_models import open_model
from strop.errors import ConfigError
from strop.model_choice import ModelChoice
from strop.trajectory import Trajectory
from strop.types import Message, Sampling
from tests.model_server import ModelServer
from tests.sdk.cli.command import strop
from tests.sdk.models.http.peers import ok, telling_why


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def folder(tmp_path: Path, authority: trustme.CA) -> Path:
    """Authority, certificate and key, the two in one file, and keys that are wrong."""
    client = authority.issue_cert("client.test")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    client.cert_chain_pems[0].write_to_path(tmp_path / "client.pem")
    client.private_key_pem.write_to_path(tmp_path / "client.key")
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    other = authority.issue_cert("other.test")
    other.private_key_pem.write_to_path(tmp_path / "other.key")
    rsa = authority.issue_cert("rsa.test", key_type=trustme.KeyType.RSA)
    rsa.private_key_pem.write_to_path(tmp_path / "rsa.key")
    key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    (tmp_path / "locked.key").write_bytes(locked)
    mark = "PRIVATE KEY-----"
    (tmp_path / "broken.key").write_text(f"-----BEGIN {mark}\nAAAA\n-----END {mark}\n")
    return tmp_path


def demanding(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


RUN = """
[[environments]]
ref = "first-env"
[model]
name = "tiny"
base_url = "{base_url}"
ca_file = "{folder}/ca.pem"
retry = {{ try_count = 1 }}
{more}
[run]
tasks = 2
"""


def write_run(folder: Path, base_url: str, *lines: str) -> Path:
    path = folder / "run.toml"
    path.write_text(RUN.format(base_url=base_url, folder=folder, more="\n".join(lines)))
    return path


@pytest.mark.usefixtures("site")
async def test_a_certificate_opens_what_stays_shut_without_it(
    folder: Path, authority: trustme.CA
) -> None:
    async with ModelServer(tls=demanding(authority)) as server:
        path = write_run(folder, server.base_url)
        command = ("eval", "run", "--config", path, "--json")
        shut = await asyncio.to_thread(strop, *command)
        count = len(server.calls)
        # The certificate from the file, its key by a flag over the file's.
        pair = (f'cert_file = "{folder}/client.pem"', f'key_file = "{folder}/other.key"')
        write_run(folder, server.base_url, *pair)
        opened = await asyncio.to_thread(strop, *command, "--key-file", folder / "client.key")

    assert (count, sum(shut.document["failures"].values())) == (0, 2)
    assert all("name one that it trusts in cert_file" in cause for cause in shut.document["causes"])
    assert opened.document["mean_reward"] == 1.0, opened.stderr
    assert len(server.calls) == 2


@pytest.mark.usefixtures("site")
async def test_a_server_that_tells_what_it_wants_stops_the_run(
    folder: Path, authority: trustme.CA
) -> None:
    with telling_why(demanding(authority), ok(b"{}")) as port:
        path = write_run(folder, f"https://127.0.0.1:{port}/v1")
        stopped = await asyncio.to_thread(strop, "eval", "run", "--config", path, "--json")

    assert stopped.code == 1
    assert "name a client certificate that it trusts in cert_file" in stopped.error["message"]


@reward(range=(0, 1), inline=True)
def nothing(trajectory: Trajectory) -> float:
    return 0.0


ENVIRONMENT = Environment(tasks=[Task("1", "abc")], rewards=[nothing])


async def test_one_file_may_hold_the_certificate_and_its_key(
    folder: Path, authority: trustme.CA
) -> None:
    async with ModelServer(tls=demanding(authority)) as server:
        choice = ModelChoice(
            name="tiny",
            base_url=server.base_url,
            ca_file=str(folder / "ca.pem"),
            cert_file=str(folder / "both.pem"),
        )
        model = open_model(choice, ENVIRONMENT)
        try:
            completion = await model.complete([Message("user", "abc")], [], Sampling())
        finally:
            await model.close()

    assert completion.text == "cba"


@pytest.mark.parametrize(
    ("certificate", "key", "told"),
    [
        ("absent.pem", "client.key", "absent.pem (cert_file) cannot be read: [Errno 2]"),
        (".", "client.key", "(cert_file) cannot be read: [Errno 21]"),
        ("client.key", "client.key", "client.key (cert_file) holds no certificate."),
        ("client.pem", "absent.key", "absent.key (key_file) cannot be read: [Errno 2]"),
        ("client.pem", "ca.pem", "ca.pem (key_file) holds no private key."),
        ("client.pem", None, "client.pem (cert_file) holds no private key."),
        ("client.pem", "other.key", "other.key (key_file) is not that of the certificate in"),
        ("client.pem", "rsa.key", "rsa.key (key_file) is not that of the certificate in"),
        ("client.pem", "locked.key", "locked.key (key_file) has a passphrase. Give one without."),
        ("client.pem", "broken.key", "broken.key (key_file) cannot be used"),
    ],
)
def test_files_that_cannot_be_shown_are_named_before_anything_is_asked(
    folder: Path, certificate: str, key: str | None, told: str
) -> None:
    choice = ModelChoice(
        name="tiny",
        base_url="https://127.0.0.1:9/v1",
        cert_file=str(folder / certificate),
        key_file=None if key is None else str(folder / key),
    )

    with pytest.raises(ConfigError) as caught:
        open_model(choice, ENVIRONMENT)

    assert told in str(caught.value)
