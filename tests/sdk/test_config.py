"""Which hub, which token, and a file that nobody else can read."""

import os
import stat
import threading
from functools import partial
from pathlib import Path

import pytest

from strop.config import (
    Config,
    cache_folder,
    change_config,
    choose_hub,
    config_path,
    loose_mode,
    mask_token,
    normalize_hub_url,
    read_config,
    with_token,
    write_config,
)
from strop.errors import ConfigError

HUB = "https://hub.example"
OTHER = "https://other.example"
TOKEN = "strop_abcdefgh12345678"


def a_config(**tokens: str) -> Config:
    return Config(HUB, {f"https://{name}.example": token for name, token in tokens.items()})


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("https://Hub.Example/", "https://hub.example"),
        ("https://hub.example:443", "https://hub.example"),
        ("http://hub.example:80/strop/", "http://hub.example/strop"),
        ("  http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)
def test_an_address_has_one_spelling(text: str, normal: str) -> None:
    assert normalize_hub_url(text) == normal


@pytest.mark.parametrize(
    "text",
    ["hub.example", "ftp://hub.example", "https://", "http://hub:port", "http://hub/?a=1", ""],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="hub"):
        normalize_hub_url(text)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        normalize_hub_url("https://ada:hunter2@hub.example")

    assert "hunter2" not in str(caught.value)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    config = a_config(hub=TOKEN, other='strop_"quoted\\"')

    write_config(tmp_path / "new" / "config.toml", config)

    assert read_config(tmp_path / "new" / "config.toml") == config


def test_the_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        write_config(path, a_config(hub=TOKEN))
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert loose_mode(path) is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.toml"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    configs = [a_config(**{f"hub{n}": TOKEN for n in range(size)}) for size in (1, 200)]
    write_config(path, configs[0])
    has_ended = threading.Event()

    def write() -> None:
        for turn in range(60):
            write_config(path, configs[turn % 2])
        has_ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not has_ended.is_set():
        seen.append(read_config(path))
    writer.join()
    assert all(config in configs for config in seen)


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    together = threading.Barrier(8)

    def change(number: int) -> None:
        together.wait(60)
        for part in range(10):
            hub = f"http://{number}.example:{part + 1}"
            change_config(path, partial(with_token, hub=hub, token="strop_token"))

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(read_config(path).tokens) == 80


def test_a_mode_that_lets_others_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    path.chmod(0o640)

    assert loose_mode(path) == "0640"
    assert loose_mode(tmp_path / "absent") is None


def test_an_absent_file_is_an_empty_configuration(tmp_path: Path) -> None:
    assert read_config(tmp_path / "absent.toml") == Config()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hub = ", "no TOML"),
        ("hubb = 'https://hub.example'\ntoken = 'x'", "unknown key `hubb`; unknown key `token`"),
        ("hub = 7", "`hub` is no text"),
        ("tokens = 'strop_x'", "`tokens` is no table"),
        ("[tokens]\n'https://hub.example' = 7", "`tokens` is no table"),
        ("hub = 'hub.example'", "no hub address"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=said) as caught:
        read_config(path)
    assert "strop_x" not in str(caught.value)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="binary"):
        read_config(tmp_path / "binary")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_config(tmp_path / "binary" / "config.toml", Config())


def test_a_flag_goes_before_a_variable_and_a_variable_before_the_file() -> None:
    config = a_config(hub=TOKEN)
    variables = {"STROP_HUB": "https://variable.example", "STROP_TOKEN": "strop_variable"}

    from_file = choose_hub(config, environ={})
    from_variable = choose_hub(config, environ=variables)
    from_flag = choose_hub(config, hub_flag=OTHER, token_flag="strop_flag", environ=variables)

    assert (from_file.hub, from_file.token) == (HUB, TOKEN)
    assert (from_file.hub_source, from_file.token_source) == ("file", "file")
    assert from_variable.hub == "https://variable.example"
    assert (from_variable.token, from_variable.token_source) == ("strop_variable", "variable")
    assert (from_flag.hub, from_flag.token) == (OTHER, "strop_flag")


def test_a_token_goes_to_no_other_hub() -> None:
    config = a_config(hub=TOKEN)

    filed = choose_hub(config, hub_flag=OTHER, environ={})
    variable = choose_hub(config, hub_flag=OTHER, environ={"STROP_TOKEN": "strop_for_hub"})
    both = choose_hub(
        Config(), hub_flag=OTHER, environ={"STROP_TOKEN": "strop_for_hub", "STROP_HUB": HUB}
    )

    assert (filed.token, variable.token, both.token) == (None, None, None)


def test_the_variable_serves_the_hub_of_a_flag_when_there_is_no_other() -> None:
    access = choose_hub(Config(), hub_flag=OTHER, environ={"STROP_TOKEN": "strop_only"})

    assert access.token == "strop_only"


def test_without_any_hub_the_ways_to_name_one_are_told() -> None:
    with pytest.raises(ConfigError, match=r"--hub.*STROP_HUB.*strop login"):
        choose_hub(Config(), environ={"STROP_TOKEN": "strop_x"})


@pytest.mark.parametrize("token", ["strop_a b", "strop_ü", "strop_a\nHost: evil"])
def test_a_token_that_could_break_a_header_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="no token"):
        choose_hub(Config(), hub_flag=HUB, token_flag=token, environ={})


def test_tokens_are_kept_for_each_hub_and_forgotten_alone() -> None:
    config = with_token(with_token(Config(), HUB, "strop_a"), OTHER, "strop_b")

    assert with_token(config, HUB, None).tokens == {OTHER: "strop_b"}


@pytest.mark.parametrize(
    ("token", "shown"), [(TOKEN, "strop_ab…"), ("plain-secret", "pl…"), ("a_b", "a_…")]
)
def test_a_token_is_never_shown_whole(token: str, shown: str) -> None:
    assert mask_token(token) == shown


def test_the_file_and_the_cache_follow_the_variables_of_the_desktop_standard() -> None:
    variables = {"XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k"}

    assert config_path(variables) == Path("/c/strop/config.toml")
    assert cache_folder(variables) == Path("/k/strop")
    assert config_path({"STROP_CONFIG": "/elsewhere.toml"}) == Path("/elsewhere.toml")
    assert config_path({}).is_relative_to(Path.home())
    assert cache_folder({}).is_relative_to(Path.home())
