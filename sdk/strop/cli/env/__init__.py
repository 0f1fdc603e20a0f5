"""`strop env`: importing this package registers every command of the group."""

from strop.cli.env import author, catalog, installation, release, share  # noqa: F401 - they register
from strop.cli.env.group import app

__all__ = ["app"]
