"""The `strop` command: parse, call one function, print."""

from strop.cli.app import main

__all__ = ["main"]
