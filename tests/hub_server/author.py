"""A user of a hub who publishes environments, for tests about reading them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from strop.hub.wire import Scope
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub

API = "/api/v1/environments"


@dataclass
class Author:
    """An owner, with a token that may do everything but administer."""

    hub: RunningHub
    folder: Path
    owner: str
    token: str

    @classmethod
    def new(cls, hub: RunningHub, folder: Path) -> "Author":
        """An author whom no other test knows."""
        return cls(hub, folder, *hub.new_user())

    def publish(
        self, name: str, *versions: str, visibility: str = "public", **wheel: Any
    ) -> list[dict[str, Any]]:
        """Publish some versions of an environment; gives what the hub says about each."""
        published = []
        for version in versions or ("0.1.0",):
            upload = an_upload(self.folder / name / version, name=name, version=version, **wheel)
            response = self.hub.push(self.token, self.owner, upload, visibility=visibility)
            assert response.status_code == 201, response.text
            published.append(response.json()["version"])
        return published

    def yank(self, name: str, version: str, reason: str = "") -> None:
        """Yank a version."""
        with self.hub.client(self.token) as client:
            path = f"{API}/{self.owner}/{name}/versions/{version}/yank"
            response = client.post(path, json={"reason": reason})
        assert response.status_code == 200, response.text

    def reader(self) -> str:
        """A token that may see what is private."""
        return self.hub.new_token(self.owner, scopes=[Scope.READ])

    def resolve(
        self, *references: str, token: str | None = None, python: str | None = None
    ) -> list[dict[str, Any]]:
        """What references mean to the holder of `token`."""
        body: dict[str, Any] = {"references": list(references)}
        if python is not None:
            body["python_version"] = python
        with self.hub.client(token) as client:
            response = client.post("/api/v1/resolve", json=body)
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items


def ask(
    hub: RunningHub, method: str, path: str, token: str | None = None, **headers: str
) -> httpx.Response:
    """One request with extra headers; ``if_none_match=…`` sends ``if-none-match``."""
    with hub.client(token) as client:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.request(method, path, headers=sent)


def names_in(items: Sequence[dict[str, Any]]) -> list[str]:
    """The names of listed environments."""
    return [item["name"] for item in items]
