"""Images and sounds in messages, as each dialect has them."""

from __future__ import annotations

from strop.errors import ModelRequestError
from strop.types import JSON, Part


def encode_chat_part(part: Part) -> dict[str, JSON]:
    """A part as chat completions have it.

    Raises:
        ModelRequestError: It is known by its digest alone.
    """
    if part.kind == "text":
        return {"type": "text", "text": part.text or ""}
    url = _url_of(part)
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    media_type, content = _open_url(part, url)
    sound = media_type.removeprefix("audio/").removeprefix("x-").replace("mpeg", "mp3")
    return {"type": "input_audio", "input_audio": {"data": content, "format": sound}}


def encode_anthropic_part(part: Part) -> dict[str, JSON]:
    """A part as Anthropic's Messages have it.

    Raises:
        ModelRequestError: It is known by its digest alone, or is audio.
    """
    if part.kind == "text":
        return {"type": "text", "text": part.text or ""}
    if part.kind == "audio":
        raise ModelRequestError("Messages takes no audio: leave the part out of the prompt")
    url = _url_of(part)
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    media_type, content = _open_url(part, url)
    source: JSON = {"type": "base64", "media_type": media_type, "data": content}
    return {"type": "image", "source": source}


def encode_response_part(part: Part) -> dict[str, JSON]:
    """A part as OpenAI's Responses have it.

    Raises:
        ModelRequestError: It is known by its digest alone, or is audio.
    """
    if part.kind == "text":
        return {"type": "input_text", "text": part.text or ""}
    if part.kind == "audio":
        raise ModelRequestError("Responses takes no audio: leave the part out of the prompt")
    return {"type": "input_image", "image_url": _url_of(part)}


def _url_of(part: Part) -> str:
    if part.url is None:
        raise ModelRequestError(
            f"a part of kind {part.kind} has no URL (digest {part.digest}):"
            " read its blob into a data: URL before the call"
        )
    return part.url


def _open_url(part: Part, url: str) -> tuple[str, str]:
    """Media type and base64 text of a ``data:`` URL."""
    head, _, content = url.partition(";base64,")
    return part.media_type or head.removeprefix("data:"), content
