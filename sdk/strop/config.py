"""Which hub to talk to and with which token: flags, then variables, then a file of mode 0600."""

import json
import os
import stat
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from strop.errors import ConfigError

HUB_VARIABLE = "STROP_HUB"
TOKEN_VARIABLE = "STROP_TOKEN"  # noqa: S105 - the name of a variable, not a token
CONFIG_VARIABLE = "STROP_CONFIG"

Source = Literal["flag", "variable", "file", "unset"]
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Config:
    """What the configuration file says."""

    hub: str | None = None
    """The hub to use when neither a flag nor a variable names one."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """One token for each hub, by the hub's address in its normal form."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """The hub that a command talks to, and where each half of that came from."""

    hub: str
    token: str | None
    hub_source: Source
    token_source: Source


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where the configuration file is, whether or not it exists."""
    environ = os.environ if environ is None else environ
    if chosen := environ.get(CONFIG_VARIABLE):
        return _expanded(chosen, CONFIG_VARIABLE)
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return _expanded(base, CONFIG_VARIABLE) / "strop" / "config.toml"


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where files that can be fetched again are kept."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return _expanded(base, "XDG_CACHE_HOME") / "strop"


def _expanded(path: str, variable: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{path} leads nowhere: this user has no home folder. Set HOME or {variable}."
        ) from error


def normalize_hub_url(text: str) -> str:
    """The one spelling of a hub's address, so that its token is found again.

    Raises:
        ConfigError: `text` is no http or https address, or carries a user, query or fragment.
    """
    text = text.strip()
    advice = "Give the hub's address as https://HOST[:PORT][/PREFIX]."
    if not text.isprintable() or " " in text:
        raise ConfigError(f"{text!a} is no hub address: it holds odd characters. {advice}")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{text!r} is no hub address: {error}. {advice}") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ConfigError(f"{text!r} is no hub address. {advice}")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"The hub address for {parts.hostname} carries a user or password. "
            f"Leave it out, and give the token with `strop login`. {advice}"
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"{text!r} carries a query or fragment. {advice}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    suffix = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{suffix}{parts.path.rstrip('/')}"


def read_config(path: Path) -> Config:
    """Read the file; an absent one is an empty configuration.

    Raises:
        ConfigError: the file cannot be read or says something that it may not.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. Mend or remove it.") from error
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no TOML: {error}. Mend or remove it.") from error
    return _from_table(table, path)


def write_config(path: Path, config: Config) -> None:
    """Replace the file in one step; it is private to its owner from its first byte on.

    Raises:
        ConfigError: the file or its folder cannot be written.
    """
    try:
        # A link that leads to the file stays a link.
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp creates with mode 0600, so no other user can open the file at any moment.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(_to_text(config))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}.") from error


def change_config(path: Path, change: Callable[[Config], Config]) -> None:
    """Read the file, change it and write it, while no other command does.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}.") from error
    try:
        _wait_for(lock)
        write_config(path, change(read_config(path)))
    finally:
        os.close(lock)


def _wait_for(lock: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two commands at once are for their user to avoid.
        return
    # The kernel frees it also when a command is killed.
    fcntl.flock(lock, fcntl.LOCK_EX)


def loose_mode(path: Path) -> str | None:
    """The file's mode as octal text when others than its owner may read it, else None."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    return f"{mode:04o}" if mode & 0o077 else None


def mask_token(token: str) -> str:
    """Enough of a token to recognise it, and never enough to use it."""
    prefix, found, secret = token.partition("_")
    shown = f"{prefix}_{secret[:2]}" if found and len(secret) >= 8 else token[:2]
    return f"{shown}…"


def choose_hub(
    config: Config,
    *,
    hub_flag: str | None = None,
    token_flag: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> HubAccess:
    """The hub and the token of a command.

    A token goes to the hub that it belongs to and to no other: one from a flag to the chosen
    hub, one from the file to the hub that it is filed under, and the one in `STROP_TOKEN` to the
    hub that is used without `--hub`; where there is no such hub, to the one that `--hub` names.

    Raises:
        ConfigError: no hub is named anywhere, or its address is none.
    """
    environ = os.environ if environ is None else environ
    standing, standing_source = _standing_hub(config, environ)
    hub = normalize_hub_url(hub_flag) if hub_flag else standing
    if hub is None:
        raise ConfigError(
            f"No hub is configured. Give --hub URL, set {HUB_VARIABLE}, or run `strop login URL`."
        )
    hub_source: Source = "flag" if hub_flag else standing_source
    if token_flag:
        return HubAccess(hub, _checked(token_flag, "--token"), hub_source, "flag")
    variable = environ.get(TOKEN_VARIABLE)
    if variable and hub == (standing or hub):
        return HubAccess(hub, _checked(variable, TOKEN_VARIABLE), hub_source, "variable")
    token = config.tokens.get(hub)
    return HubAccess(hub, token, hub_source, "unset" if token is None else "file")


def with_token(config: Config, hub: str, token: str | None) -> Config:
    """A copy that knows `token` for `hub`; None forgets it."""
    tokens = {url: kept for url, kept in config.tokens.items() if url != hub}
    if token is not None:
        tokens[hub] = _checked(token, "The token")
    return replace(config, tokens=tokens)


def _standing_hub(config: Config, environ: Mapping[str, str]) -> tuple[str | None, Source]:
    if variable := environ.get(HUB_VARIABLE):
        return normalize_hub_url(variable), "variable"
    return config.hub, "unset" if config.hub is None else "file"


def _checked(token: str, where: str) -> str:
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{where} is no token: it is empty, or holds spaces or odd characters.")
    return token


def _from_table(table: dict[str, object], path: Path) -> Config:
    tokens = table.get("tokens", {})
    problems = [f"unknown key `{key}`" for key in table if key not in ("hub", "tokens")]
    if not isinstance(table.get("hub", ""), str):
        problems.append("`hub` is no text")
    if not isinstance(tokens, dict) or not all(isinstance(token, str) for token in tokens.values()):
        problems.append("`tokens` is no table of texts")
    if problems:
        raise ConfigError(f"{path}: {'; '.join(problems)}. Mend or remove it.")
    assert isinstance(tokens, dict)
    hub = table.get("hub")
    return Config(
        normalize_hub_url(str(hub)) if hub else None,
        {
            normalize_hub_url(url): _checked(str(token), f"{path}: the token for {url}")
            for url, token in tokens.items()
        },
    )


def _to_text(config: Config) -> str:
    lines = [] if config.hub is None else [f"hub = {_quoted(config.hub)}"]
    if config.tokens:
        lines += ["", "[tokens]"]
        lines += [f"{_quoted(url)} = {_quoted(token)}" for url, token in config.tokens.items()]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # A JSON string of printable characters is a TOML basic string, unless it escapes by halves.
    return json.dumps(text, ensure_ascii=False)
