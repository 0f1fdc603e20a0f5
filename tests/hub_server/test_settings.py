"""Settings come from arguments, then variables, then defaults."""

from pathlib import Path

import pytest

from strop.errors import ConfigError
from strop_hub.settings import Settings


def test_arguments_win_over_variables_and_variables_over_defaults(tmp_path: Path) -> None:
    environ = {"STROP_HUB_PORT": "9000", "STROP_HUB_HOST": "::1", "STROP_HUB_PUBLIC_URL": ""}

    settings = Settings.read(environ, data=tmp_path, port=7000, host=None)

    assert (settings.port, settings.host, settings.drain_s) == (7000, "::1", 30)


def test_the_public_url_is_used_without_its_last_slash(tmp_path: Path) -> None:
    bare = Settings.read({}, data=tmp_path)
    public = Settings.read({"STROP_HUB_PUBLIC_URL": "https://hub.example/a/"}, data=tmp_path)

    assert bare.url == "http://127.0.0.1:8000"
    assert public.url == "https://hub.example/a"


def test_a_list_is_separated_by_commas(tmp_path: Path) -> None:
    settings = Settings.read({"STROP_HUB_RESERVED_NAMES": " numpy,, torch ,"}, data=tmp_path)

    assert settings.reserved_names == ("numpy", "torch")


def test_the_data_folder_can_come_from_a_variable_and_must_come_from_somewhere(
    tmp_path: Path,
) -> None:
    assert Settings.read({"STROP_HUB_DATA": str(tmp_path)}).data == tmp_path
    with pytest.raises(ConfigError, match="--data DIR"):
        Settings.read({})


def test_a_number_that_is_none_is_refused_by_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="STROP_HUB_PORT='http'"):
        Settings.read({"STROP_HUB_PORT": "http"}, data=tmp_path)
