"""Turn a wire shape into a JSON response, whatever text people have put into it."""

import json

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError


def answer(shape: BaseModel, status: int = 200) -> Response:
    """`shape` as a response.

    Manifests and schemas can hold lone surrogates, which UTF-8 has no form for; they leave as the
    escapes that they came as.
    """
    try:
        content = shape.model_dump_json().encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        content = json.dumps(shape.model_dump(mode="python"), default=str).encode()
    return Response(content, status, media_type="application/json")
