"""What an operator can set: from arguments, then ``STROP_HUB_*`` variables, then defaults."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from strop.errors import ConfigError
from strop_hub.db import sqlite_url

PREFIX = "STROP_HUB_"
MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that differs from one hub to another.

    The field `host` is set by the variable ``STROP_HUB_HOST``, and so on for each.
    """

    data: Path
    """The folder with the database, the blobs and the uploads under way."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0: any free port."""
    public_url: str = ""
    """How clients reach the hub; absolute URLs start with it, never with the Host header.

    Empty: ``http://host:port``.
    """
    database_url: str = ""
    """A SQLAlchemy URL, such as ``postgresql://hub@db/hub``. Empty: SQLite in the data folder."""
    storage_url: str = ""
    """Where blobs lie: ``s3://bucket/prefix``. Empty: a folder of the data folder.

    Credentials are found as every AWS client finds them: ``AWS_ACCESS_KEY_ID`` and so on.
    """
    s3_endpoint_url: str = ""
    """Of a store that is not Amazon's."""
    s3_region: str = ""
    s3_public_url: str = ""
    """Where clients reach the bucket: large downloads are then redirected to signed addresses.

    Empty: every download goes through the hub.
    """
    max_file_bytes: int = 100 * MIB
    """Of one uploaded file."""
    max_field_bytes: int = 4096
    """Of one text field of an upload."""
    max_json_bytes: int = MIB
    """Of a JSON request body."""
    owner_quota_bytes: int = 10 * GIB
    """Of all files of an owner, unless the owner has a quota of its own."""
    attestation_publishers: tuple[str, ...] = ()
    """Whose attestations count: ``OWNER=REPOSITORY/WORKFLOW``, separated by commas."""
    attestation_trusted_root: str = ""
    """A Sigstore's ``trusted_root.json``. Empty: the public Sigstore's, as it is installed."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks whose ``X-Forwarded-For`` is believed; separated by commas."""
    version_open_days: int = 14
    """How long after its publishing a version takes further files."""
    reserved_names: tuple[str, ...] = ()
    """Names that nobody can claim on ``/simple/``; separated by commas in the variable."""
    token_lifetime_days: int = 365
    """Of a token made without an expiry of its own."""
    database_threads: int = 8
    blob_threads: int = 8
    archive_threads: int = 2
    """At most as many at once: separate limits, so that a slow store cannot stop the rest."""
    requests_per_minute: int = 12_000
    """Of one token, or of one address without a token; in each process. 0: any number."""
    body_idle_s: int = 60
    """How long the hub waits for the next piece of a body."""
    body_s: int = 3600
    """How long a whole body may take."""
    reader_idle_s: int = 60
    """How long the hub waits for a client to take the next piece of an answer."""
    read_only: int = 0
    """1: refuse everything that changes something."""
    accel_prefix: str = ""
    """Behind nginx: the internal location over the folder of blobs, for ``X-Accel-Redirect``.

    Such as ``/blobs/``. Empty: the hub sends the bytes itself.
    """
    log_format: str = "text"
    """``text`` or ``json``, one object a line."""
    trace_url: str = ""
    """An OpenTelemetry collector's address for spans, over OTLP and HTTP.

    Such as ``http://collector:4318/v1/traces``; needs the extra `otel`. Empty: no spans are made.
    """
    drain_s: int = 30
    """How long a shutdown waits for requests under way."""

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None, **given: Any) -> Self:
        """Settings from the arguments that are not None, then the variables, then defaults.

        Raises:
            ConfigError: A variable has a value of the wrong type, or no data folder is named.
        """
        environ = os.environ if environ is None else environ
        values = {name: value for name, value in given.items() if value is not None}
        for field in fields(cls):
            variable = PREFIX + field.name.upper()
            if field.name not in values and environ.get(variable):
                values[field.name] = _convert(variable, environ[variable], field.type)
        if "data" not in values:
            raise ConfigError(f"no data folder: give --data DIR, or set {PREFIX}DATA")
        values["data"] = Path(values["data"]).absolute()
        return cls(**values)

    def variables(self) -> dict[str, str]:
        """The settings as variables, for processes that read theirs from the environment."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            PREFIX + name.upper(): ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in values.items()
        }

    @property
    def url(self) -> str:
        """`public_url` or its default, without a slash at the end."""
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def database(self) -> str:
        """`database_url` or its default."""
        return self.database_url or sqlite_url(self.data / "hub.sqlite3")

    @property
    def blobs(self) -> Path:
        """The folder of the blobs."""
        return self.data / "blobs"

    @property
    def uploads(self) -> Path:
        """The folder of uploads under way; in the same file system as the blobs."""
        return self.data / "uploads"


def _convert(variable: str, text: str, kind: object) -> object:
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is not int:
        return text
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"{variable}={text!r} is no whole number") from error
