"""A configuration holds against odd addresses, hostile files, odd machines and many writers."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.config import (
    Config,
    cache_folder,
    choose_hub,
    config_path,
    mask_token,
    normalize_hub_url,
    read_config,
    with_token,
    write_config,
)
from strop.errors import ConfigError

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
HOSTS = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
PATHS = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="?#\\"), max_size=9)
TOKENS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
URLS = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}/{path}",
    st.sampled_from(["http", "https", "HTTP"]),
    HOSTS,
    st.sampled_from(["", ":80", ":443", ":8000", ":"]),
    PATHS,
)


@given(URLS)
def test_the_normal_form_of_an_address_is_its_own_normal_form(text: str) -> None:
    normal = normalize_hub_url(text)

    assert normalize_hub_url(normal) == normal
    assert not normal.endswith("/")


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_is_refused_by_name(text: str) -> None:
    for prefix in ("", "http://", "https://hub.example/", "http://["):
        try:
            normal = normalize_hub_url(prefix + text)
        except ConfigError:
            continue
        assert normal.isprintable()
        assert " " not in normal


@pytest.mark.parametrize(
    "text",
    [
        "http://[::1",
        "http://[not an address]/",
        "http://ex\u2100.example",
        "http://two words",
        "http://hub/two words",
        "http://hub/\x7f",
        "http://hub/\x1b[2J",
        "http://hub\u2028.example",
        "http://\udcff.example",
        "http://hub:65536",
        "http://hub:-1",
        "http://hub\nhttp://evil",
    ],
)
def test_an_address_that_could_be_misread_is_refused_and_shown_without_its_marks(
    text: str,
) -> None:
    with pytest.raises(ConfigError, match="no hub address") as caught:
        normalize_hub_url(text)

    assert str(caught.value).isprintable()


@given(st.none() | URLS, st.dictionaries(URLS, TOKENS, max_size=4))
def test_every_configuration_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, hub: str | None, tokens: dict[str, str]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"config-{os.getpid()}.toml"
    config = Config(hub and normalize_hub_url(hub))
    for url, token in tokens.items():
        config = with_token(config, normalize_hub_url(url), token)

    write_config(path, config)

    assert read_config(path) == config


@pytest.mark.parametrize("letter", ["\U0001f600", "é", "\u00a9", "漢", '"', "'"])
def test_letters_beyond_the_basic_plane_do_not_make_the_file_unreadable(
    letter: str, tmp_path: Path
) -> None:
    url = normalize_hub_url(f"https://hub.example/{letter}")
    config = Config(url, {url: "strop_token"})

    write_config(tmp_path / "config.toml", config)

    assert read_config(tmp_path / "config.toml") == config
    assert choose_hub(config, environ={}).token == "strop_token"


@given(TOKENS)
def test_a_masked_token_gives_away_a_tenth_at_most(token: str) -> None:
    shown = mask_token(token)

    assert shown.endswith("…")
    assert shown != token
    secret = token.partition("_")[2]
    assert len(secret) < 8 or secret not in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "[" * 5000, "no TOML"),
        ("a" + ".a" * 5000 + " = 1", "no TOML|unknown key"),
        ("\x00", "no TOML"),
        ("[tokens]\n'https://hub.example' = \"strop_\\u00fc\"", "is no token"),
        ("[tokens]\n'https://hub.example' = \"strop_a\\nx-evil: 1\"", "is no token"),
        ("[tokens]\n'https://hub.example' = ''", "is no token"),
        ("[tokens]\n'http://[::1' = 'strop_x'", "no hub address"),
        ("hub = 'https://ada:pw@hub.example'", "user or password"),
        ("[tokens]\n[tokens]\n", "no TOML"),
        ("[[tokens]]\n", "no table"),
    ],
)
def test_a_hostile_file_is_refused_with_its_path_or_address(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(text)

    with pytest.raises(ConfigError, match=said):
        read_config(tmp_path / "config.toml")


@given(st.binary(max_size=60))
def test_no_bytes_make_reading_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"bytes-{os.getpid()}.toml"
    path.write_bytes(content)
    with contextlib.suppress(ConfigError):
        assert isinstance(read_config(path), Config)


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "strop.toml"
    kept.parent.mkdir()
    kept.write_text("")
    link = tmp_path / "config.toml"
    link.symlink_to(kept)

    write_config(link, Config("https://hub.example"))

    assert link.is_symlink()
    assert read_config(kept).hub == "https://hub.example"
    assert kept.stat().st_mode & 0o077 == 0


def test_a_link_that_leads_to_nothing_yet_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "config.toml"
    link.symlink_to(tmp_path / "later" / "strop.toml")

    write_config(link, Config("https://hub.example"))

    assert read_config(tmp_path / "later" / "strop.toml").hub == "https://hub.example"


def test_many_writers_leave_one_of_their_configurations_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    configs = [Config(f"https://hub{n}.example", {"https://h.example": f"t{n}"}) for n in range(8)]

    def write(config: Config) -> None:
        for _ in range(10):
            write_config(path, config)

    threads = [threading.Thread(target=write, args=(config,)) for config in configs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read_config(path) in configs
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


def test_a_disk_that_is_full_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    old = Config("https://hub.example", {"https://hub.example": "strop_old"})
    write_config(path, old)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        with pytest.raises(ConfigError, match=r"config\.toml cannot be written"):
            write_config(path, with_token(old, "https://other.example", "t" * 100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)

    assert read_config(path) == old
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("variable", ["STROP_CONFIG", "XDG_CONFIG_HOME"])
def test_odd_folders_are_taken_as_they_are(variable: str, tmp_path: Path) -> None:
    odd = tmp_path / "with space" / "ünï\U0001f600" / "'quoted\""

    path = config_path({variable: str(odd)})
    write_config(path, Config("https://hub.example"))

    assert path.is_relative_to(odd)
    assert read_config(path).hub == "https://hub.example"


@pytest.mark.parametrize("variable", ["STROP_CONFIG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"])
def test_an_empty_variable_is_as_good_as_none(variable: str) -> None:
    assert config_path({variable: ""}) == config_path({})
    assert cache_folder({variable: ""}) == cache_folder({})


def run_homeless(code: str) -> str:
    """Run `code` as a user without a home, whom the machine's list of users does not know."""
    environ = {k: v for k, v in os.environ.items() if k != "HOME" and not k.startswith("XDG_")}
    prefix = """
import pwd, os
pwd.getpwuid = lambda uid: (_ for _ in ()).throw(KeyError(uid))
from strop.config import *
from strop.errors import ConfigError
"""
    finished = subprocess.run(
        [sys.executable, "-c", prefix + code],
        env={k: v for k, v in environ.items() if not k.startswith("STROP_")},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip()


def test_a_user_without_a_home_is_told_which_variable_helps() -> None:
    printed = run_homeless(
        """
for find in (config_path, cache_folder):
    try:
        find()
    except ConfigError as error:
        print(error)
print(config_path({"XDG_CONFIG_HOME": "/c"}), cache_folder({"XDG_CACHE_HOME": "/k"}))
"""
    ).splitlines()

    assert printed[0].startswith("~/.config leads nowhere")
    assert "STROP_CONFIG" in printed[0]
    assert "XDG_CACHE_HOME" in printed[1]
    assert printed[2] == "/c/strop/config.toml /k/strop"


@given(
    st.sampled_from([None, "https://flag.example"]),
    st.sampled_from([None, "https://variable.example"]),
    st.sampled_from([None, "https://file.example"]),
    st.sampled_from([None, "strop_flag"]),
    st.sampled_from([None, "strop_variable"]),
    st.sets(st.sampled_from(["flag", "variable", "file"])),
)
def test_no_token_ever_goes_to_a_hub_that_it_does_not_belong_to(
    hub_flag: str | None,
    variable: str | None,
    filed: str | None,
    token_flag: str | None,
    token_variable: str | None,
    known: set[str],
) -> None:
    config = Config(filed, {f"https://{name}.example": f"strop_for_{name}" for name in known})
    environ = {"STROP_HUB": variable or "", "STROP_TOKEN": token_variable or ""}
    asked = hub_flag or variable or filed
    if asked is None:
        with pytest.raises(ConfigError):
            choose_hub(config, token_flag=token_flag, environ=environ)
        return

    access = choose_hub(config, hub_flag=hub_flag, token_flag=token_flag, environ=environ)

    assert access.hub == asked
    name = asked.removeprefix("https://").removesuffix(".example")
    is_standing = asked == (variable or filed or asked)
    expected = token_flag or (token_variable if is_standing else None)
    assert access.token == (expected or (f"strop_for_{name}" if name in known else None))


def test_what_a_command_prints_of_a_configuration_never_holds_a_token(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    token = "strop_" + "s3cr3t" * 6
    write_config(path, Config("https://hub.example", {"https://hub.example": token}))

    finished = subprocess.run(
        [Path(sys.executable).with_name("strop"), "config", "--json"],
        env=os.environ | {"STROP_CONFIG": str(path), "STROP_HUB": "", "STROP_TOKEN": ""},
        capture_output=True,
        text=True,
        check=True,
    )

    assert token not in finished.stdout + finished.stderr
    assert json.loads(finished.stdout)["token_source"] == "file"
