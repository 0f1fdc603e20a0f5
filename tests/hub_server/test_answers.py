"""Wire shapes leave as JSON, whatever text is in them."""

import json

from strop.hub.wire import Health
from strop_hub.answers import answer


def test_a_shape_becomes_json() -> None:
    response = answer(Health(status="ok", version="1", checks={"é": "ü"}), 201)

    assert response.status_code == 201
    assert response.headers["content-type"] == "application/json"
    assert json.loads(bytes(response.body)) == {
        "status": "ok",
        "version": "1",
        "checks": {"é": "ü"},
    }


def test_a_lone_surrogate_leaves_as_the_escape_that_it_came_as() -> None:
    response = answer(Health(status="ok", version="1", checks={"\ud800": "\udfff\0"}))

    assert json.loads(bytes(response.body))["checks"] == {"\ud800": "\udfff\0"}
