"""The query parameters that every paged route takes."""

from typing import Annotated

from fastapi import Query

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

LimitOf = Annotated[int, Query(alias="limit", ge=1, le=MAX_LIMIT, description="Items on a page.")]
CursorOf = Annotated[
    str | None,
    Query(alias="cursor", max_length=1024, description="`next_cursor` of the page before."),
]
