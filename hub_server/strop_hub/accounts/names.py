"""Which names owners can have (step: accounts)."""

from strop.hub.refs import normalize_name
from strop_hub.errors import ReservedNameError

_RESERVED = """
    about account accounts admin api assets auth billing changes claims dashboard docs environments
    events explore feed files health healthz help hub index legacy livez login logout me metrics new
    openapi openapi-json orgs organisations organizations owners packages projects public purge
    readyz redoc register resolve robots-txt rss search security settings signup simple
    sitemap-xml static status strop support system tags tokens upload user users v1 versions
    well-known www
"""
RESERVED = frozenset(_RESERVED.split())
"""Names that are, or may become, addresses of the hub, or would pass for its operator's."""


def owner_name(text: str) -> str:
    """The normal form of a name for a new owner.

    Raises:
        InvalidRefError: It is no name.
        ReservedNameError: The hub keeps it for itself.
    """
    name = normalize_name(text)
    if name in RESERVED:
        raise ReservedNameError(
            f"`{name}` is reserved: it is, or may become, an address of the hub. "
            "Choose another name."
        )
    return name
