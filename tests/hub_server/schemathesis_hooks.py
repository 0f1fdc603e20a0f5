"""Loaded by the schemathesis command: pushes send a real package, each time of another version."""

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import schemathesis

from tests.factories import an_upload

OWNER = "STROP_TEST_OWNER"
NAME = "linked"
_PUSH = "POST /api/v1/owners/{owner}/versions"
_numbers = itertools.count(1)


@schemathesis.hook
def before_call(_context: object, case: Any, kwargs: dict[str, Any]) -> None:
    """Replace the form of a push; nothing else is touched."""
    if case.operation.label != _PUSH:
        return
    with tempfile.TemporaryDirectory() as folder:
        upload = an_upload(Path(folder), name=NAME, version=f"1.{next(_numbers)}")
        kwargs.update(upload.form())
    case.path_parameters["owner"] = os.environ[OWNER]
