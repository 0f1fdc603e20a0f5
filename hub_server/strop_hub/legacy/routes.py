"""The addresses to which twine and `uv publish` upload."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from strop.hub.wire import Problem, PushOutcome
from strop_hub.audit.service import Act
from strop_hub.dependencies import CallerOf, HubParts, audited
from strop_hub.legacy import service
from strop_hub.publish.service import Body

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 415, 422, 503, 507)
}
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["content"],
                    "properties": {"content": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}

router = APIRouter(tags=["legacy"], responses=_REFUSALS)


@router.post("/legacy/", operation_id="upload_file", openapi_extra=_FORM)
@router.post("/legacy", include_in_schema=False)
async def upload_file(
    request: Request,
    act: Annotated[Act, Depends(audited("upload"))],
    caller: CallerOf,
    hub: HubParts,
) -> Response:
    """Publish a wheel or a source distribution as the token's one owner."""
    return _answer(await service.upload(hub, caller, None, _body(request), act))


@router.post("/owners/{owner}/legacy/", operation_id="upload_owners_file", openapi_extra=_FORM)
@router.post("/owners/{owner}/legacy", include_in_schema=False)
async def upload_owners_file(
    owner: str,
    request: Request,
    act: Annotated[Act, Depends(audited("upload"))],
    caller: CallerOf,
    hub: HubParts,
) -> Response:
    """Publish a wheel or a source distribution as this owner."""
    return _answer(await service.upload(hub, caller, owner, _body(request), act))


def _body(request: Request) -> Body:
    headers = request.headers
    return Body(request.stream(), headers.get("content-type", ""), headers.get("content-length"))


def _answer(outcome: PushOutcome) -> Response:
    # Packaging clients take 200 for success, whether or not something changed.
    text = "OK\n" if outcome is PushOutcome.PUBLISHED else "OK, it was there already\n"
    return Response(text, media_type="text/plain")
