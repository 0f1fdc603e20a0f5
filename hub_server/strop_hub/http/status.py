"""Whether the hub lives, and whether it can work."""

from collections.abc import Callable
from importlib.metadata import version

from fastapi import APIRouter, Response
from sqlalchemy import select

from strop.hub.wire import Health
from strop_hub import migration
from strop_hub.dependencies import HubParts
from strop_hub.hub import Hub, in_thread
from strop_hub.models import User

READY = "ok"
NO_USERS = "nobody can push yet: run `strop hub init --data DIR --admin NAME`"

router = APIRouter(tags=["status"])


@router.get("/healthz", operation_id="show_liveness")
async def show_liveness() -> Health:
    """Whether the hub answers at all; asks nothing else."""
    return Health(status=READY, version=version("strop"))


@router.get("/readyz", operation_id="show_readiness", responses={503: {"model": Health}})
async def show_readiness(hub: HubParts, response: Response) -> Health:
    """Whether requests can be served, and what is amiss where they cannot."""
    checks = {
        "database": await in_thread(hub.workers.database, _try, _check_database, hub),
        "storage": await in_thread(hub.workers.blob, _try, _check_storage, hub),
    }
    is_ready = all(result == READY for result in checks.values())
    if is_ready:
        checks["users"] = await in_thread(hub.workers.database, _count_users, hub)
    response.status_code = 200 if is_ready else 503
    return Health(status=READY if is_ready else "failing", version=version("strop"), checks=checks)


def _try(check: Callable[[Hub], str], hub: Hub) -> str:
    try:
        return check(hub)
    except Exception as error:  # noqa: BLE001 - whatever a driver raises is the answer
        return f"{type(error).__name__}: {str(error)[:200]}"


def _check_database(hub: Hub) -> str:
    current, wanted = migration.current_revision(hub.database), migration.latest_revision()
    return READY if current == wanted else f"schema {current} instead of {wanted}: restart the hub"


def _check_storage(hub: Hub) -> str:
    hub.storage.check()
    return READY


def _count_users(hub: Hub) -> str:
    with hub.database.read() as session:
        return NO_USERS if session.scalar(select(User.id).limit(1)) is None else READY
