"""What every test gets: a home of its own, sockets only to this machine, real data by name."""

import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_DATA = Path(os.environ.get("STROP_DATA") or Path(__file__).parents[2] / "shared" / "data")
_USER_PIP_CONFIG = Path.home() / ".config" / "pip" / "pip.conf"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


_LONGEST_ID = 40

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # What a script starts in the background inherits this; tests interrupt what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's business, and no property.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() == "default":
    # Where CI is set, another one is in force, which is as patient and draws the same each time.
    settings.load_profile("patient")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case after its argument where the value itself makes no readable, stable name."""
    is_unnameable = isinstance(val, str | bytes) and (
        len(val) > _LONGEST_ID or not (val.isascii() and str(val).isprintable())
    )
    return argname if is_unnameable or isinstance(val, bytes) else None


@pytest.fixture
def data_folder() -> Callable[[str], Path]:
    """Finds a public data set by name; the test is skipped, and the cause names it, if absent."""

    def find(name: str) -> Path:
        folder = _DATA / name
        if not folder.is_dir():
            pytest.skip(f"data set {name} is absent: put it into ../shared/data, or set STROP_DATA")
        return folder

    return find


@pytest.fixture(scope="session", autouse=True)
def _isolate_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the developer's own configuration from tests, session fixtures and what they start."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch, home)
        # Installers keep their caches and their index: these belong to the machine.
        patch.setenv("PIP_CACHE_DIR", os.environ.get("PIP_CACHE_DIR") or str(_CACHE / "pip"))
        patch.setenv("UV_CACHE_DIR", os.environ.get("UV_CACHE_DIR") or str(_CACHE / "uv"))
        if _USER_PIP_CONFIG.is_file():
            patch.setenv("PIP_CONFIG_FILE", str(_USER_PIP_CONFIG))
        patch.setattr(socket, "socket", _LoopbackSocket)
        yield


@pytest.fixture(scope="session", autouse=True)
def _stop_servers() -> Iterator[None]:
    """End the database and the S3 store, if a test started them."""
    yield
    if (backends := sys.modules.get("tests.hub_server.backends")) is not None:
        backends.stop_servers()


@pytest.fixture(autouse=True)
def _isolate_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each test a home that no other test has touched."""
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch, tmp_path_factory.mktemp("home"))
        yield


def _isolate(patch: pytest.MonkeyPatch, home: Path) -> None:
    for name in [name for name in os.environ if name.startswith("STROP_")]:
        patch.delenv(name)
    patch.setenv("HOME", str(home))
    for name, folder in (("CONFIG", ".config"), ("CACHE", ".cache"), ("DATA", ".local/share")):
        patch.setenv(f"XDG_{name}_HOME", str(home / folder))
    patch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for library in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        patch.setenv(library, "1")


class _LoopbackSocket(socket.socket):
    """A socket that reaches nothing but this machine."""

    def connect(self, address: Any) -> None:
        _refuse_outside(self.family, address)
        super().connect(address)

    def connect_ex(self, address: Any) -> int:
        _refuse_outside(self.family, address)
        return super().connect_ex(address)


def _refuse_outside(family: int, address: Any) -> None:
    if family not in (socket.AF_INET, socket.AF_INET6):
        return
    host = str(address[0])
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        raise AssertionError(f"a test connects to {host}; tests may only reach this machine")
