"""Whether answers are what the hub's own OpenAPI document says of them."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx
from jsonschema import Draft202012Validator

EVERYWHERE = {400, 404, 405, 413}
"""Statuses that need no mention: no such address, or a body that nobody could read."""


@dataclass(frozen=True)
class Description:
    """An OpenAPI document."""

    document: dict[str, Any]

    @cached_property
    def operations(self) -> dict[str, tuple[str, str, dict[str, Any]]]:
        """Method, path and description by the operation's id."""
        return {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in self.document["paths"].items()
            for method, operation in methods.items()
        }

    def check(self, operation_id: str, response: httpx.Response) -> None:
        """Assert that an answer of an operation is one that the document tells of."""
        *_, operation = self.operations[operation_id]
        status = response.status_code
        where = f"{operation_id}: {status} {response.text[:300]}"
        assert response.headers["strop-hub"], where
        assert response.headers["x-request-id"], where
        described = operation["responses"].get(str(status))
        if described is None:
            assert status in EVERYWHERE, where
            self._check_schema({"$ref": "#/components/schemas/Problem"}, response, where)
            return
        content = described.get("content", {})
        media_type = response.headers.get("content-type", "").partition(";")[0]
        if status >= 400:
            assert media_type == "application/problem+json", where
            assert response.json()["status"] == status, where
            content = {media_type: content.get("application/json", content.get(media_type))}
        schema = (content.get(media_type) or {}).get("schema")
        if schema is not None and "json" in media_type:
            self._check_schema(schema, response, where)

    def _check_schema(self, schema: dict[str, Any], response: httpx.Response, where: str) -> None:
        full = {**schema, "components": self.document["components"]}
        faults = list(Draft202012Validator(full).iter_errors(json.loads(response.content)))
        assert not faults, f"{where}: {faults[0].message}"


def fill(path: str, **values: str) -> str:
    """A path with its parts filled in, as they stand."""
    return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], path)
