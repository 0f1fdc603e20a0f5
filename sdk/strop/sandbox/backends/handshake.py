"""How the exec agent and its client prove to each other that they know the same token."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import struct
from typing import Any

from strop.errors import SandboxError

PROTOCOL = "strop-sandbox/1"
_LENGTH = struct.Struct("!I")
_LARGEST_BYTES = 1 << 20
_NONCE_BYTES = 32


def proof(token: str, side: str, *nonces: str) -> str:
    """Give what only somebody with the token can compute for these nonces."""
    message = "\n".join([PROTOCOL, side, *nonces]).encode()
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()


async def send_words(writer: asyncio.StreamWriter, words: dict[str, Any]) -> None:
    """Send one message of the handshake."""
    text = json.dumps(words).encode()
    writer.write(_LENGTH.pack(len(text)) + text)
    await writer.drain()


async def read_words(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read one message of the handshake.

    Raises:
        SandboxError: The other side does not speak this protocol, or hung up.
    """
    try:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if size > _LARGEST_BYTES:
            raise SandboxError("the other side does not speak the sandbox's protocol")
        words = json.loads(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
        raise SandboxError("the other side hung up in the middle of the handshake") from error
    if not isinstance(words, dict):
        raise SandboxError("the other side does not speak the sandbox's protocol")
    return words


async def prove_as_client(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, call: dict[str, Any]
) -> dict[str, Any]:
    """Introduce oneself with a call; the token itself never travels.

    Raises:
        SandboxError: The agent refuses, or does not know the token either.
    """
    greeting = await read_words(reader)
    if greeting.get("protocol") != PROTOCOL:
        raise SandboxError(f"the agent speaks {greeting.get('protocol')!r}, not {PROTOCOL!r}")
    theirs, ours = str(greeting.get("nonce")), secrets.token_hex(_NONCE_BYTES)
    body = json.dumps(call)
    words = {"nonce": ours, "call": body, "proof": proof(token, "client", theirs, ours, body)}
    await send_words(writer, words)
    answer = await read_words(reader)
    if "error" in answer:
        raise SandboxError(f"the agent refused: {answer['error']}")
    if not hmac.compare_digest(str(answer.get("proof")), proof(token, "agent", ours, theirs)):
        raise SandboxError("the agent does not know the token. Are address and token of one agent?")
    return answer


async def check_as_agent(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> tuple[dict[str, Any], str]:
    """Let a client introduce itself; give its call and our proof in return.

    Raises:
        SandboxError: It does not know the token.
    """
    ours = secrets.token_hex(_NONCE_BYTES)
    await send_words(writer, {"protocol": PROTOCOL, "nonce": ours})
    words = await read_words(reader)
    theirs, body = str(words.get("nonce")), str(words.get("call"))
    expected = proof(token, "client", ours, theirs, body)
    if not hmac.compare_digest(str(words.get("proof")), expected):
        raise SandboxError("wrong token")
    call = json.loads(body)
    return call, proof(token, "agent", theirs, ours)
