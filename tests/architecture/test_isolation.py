"""Tests reach nothing but this machine, and nothing of the developer's own."""

import os
import socket
from pathlib import Path

import pytest


def test_a_connection_to_another_machine_is_refused() -> None:
    with socket.socket() as outside, pytest.raises(AssertionError, match=r"192\.0\.2\.1"):
        outside.connect(("192.0.2.1", 80))


def test_a_connection_by_name_to_another_machine_is_refused() -> None:
    with pytest.raises(AssertionError, match="only reach this machine"), socket.socket() as outside:
        outside.connect_ex(("example.invalid", 80))


def test_a_connection_to_loopback_is_let_through() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()


def test_home_and_configuration_are_not_the_developers(tmp_path: Path) -> None:
    assert Path.home().is_relative_to(tmp_path.parents[1])
    assert not [name for name in os.environ if name.startswith("STROP_")]
