"""What a server's TLS says of a client that it does not know."""

import ssl

from strop.errors import ModelAuthError

CLIENT_HINT = (
    "; a server that wants a client certificate may do so: name one that it trusts in"
    " cert_file, with its key in key_file"
)
"""Many servers, those on asyncio among them, hang up where others tell of the certificate."""

_CLIENT_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "HANDSHAKE_FAILURE",
    "BAD_CERTIFICATE",
    "UNSUPPORTED_CERTIFICATE",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
)
"""Alerts that mean a client's certificate (RFC 8446 §6.2); the second means ciphers, too."""


def client_refusal(error: Exception | None, where: str) -> ModelAuthError | None:
    """What to raise when `error` is a server's alert that this client may not come in."""
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    if "ALERT" not in reason or not reason.endswith(_CLIENT_ALERTS):
        return None
    return ModelAuthError(
        f"{where} refuses this client's TLS ({reason.partition('ALERT_')[2]}): name a client"
        " certificate that it trusts in cert_file, with its key in key_file"
    )
