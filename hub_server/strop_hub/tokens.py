"""The text of tokens: made, recognised by form, hashed, and taken out of a request's header."""

import base64
import binascii
import hashlib
import re
import secrets

from strop_hub.errors import InvalidTokenError

TOKEN_PREFIX = "strop_"  # noqa: S105 - the recognisable part, no secret
BASIC_USER = "__token__"
"""The user name under which packaging clients send a token as password."""

SHOWN_CHARACTERS = 12
_FORM = re.compile(r"strop_(?P<random>[A-Za-z0-9_-]{43})(?P<checksum>[0-9a-f]{6})")
_REMEDY = "Make a new one with `strop hub token create`, or ask the hub's administrator"


def new_token() -> str:
    """A token of 32 random bytes; its checksum lets scanners and people spot a false one."""
    random = secrets.token_urlsafe(32)
    return f"{TOKEN_PREFIX}{random}{_checksum(random)}"


def digest_of(token: str) -> str:
    """What the hub keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def shown_prefix(token: str) -> str:
    """The part that is shown in lists and in the audit trail."""
    return token[:SHOWN_CHARACTERS]


def read_authorization(header: str) -> str:
    """The token of an Authorization header: ``Bearer`` or, as pip sends it, ``Basic``.

    Raises:
        InvalidTokenError: The header holds no token of this form.
    """
    scheme, _, value = header.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "basic":
        value = _basic_password(value)
    elif scheme.lower() != "bearer":
        raise InvalidTokenError(
            f"the Authorization scheme {scheme[:20]!r} is not known here. "
            f"Send `Bearer TOKEN`, or Basic with the user `{BASIC_USER}`."
        )
    match = _FORM.fullmatch(value)
    if match is None or match["checksum"] != _checksum(match["random"]):
        raise invalid_token()
    return value


def invalid_token() -> InvalidTokenError:
    """One error for every token that is worth nothing here."""
    return InvalidTokenError(
        f"the token is not valid on this hub: mistyped, revoked or of another hub. {_REMEDY}."
    )


def _basic_password(value: str) -> str:
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidTokenError("the Basic credentials are not base64 of `user:token`") from None
    if user != BASIC_USER:
        raise InvalidTokenError(
            f"Basic credentials need the user name `{BASIC_USER}` and the token as password"
        )
    return password


def _checksum(random: str) -> str:
    return hashlib.sha256(random.encode()).hexdigest()[:6]
