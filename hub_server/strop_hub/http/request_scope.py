"""Where a request keeps what belongs to it alone."""

REQUEST_ID = "strop_request_id"
"""Key of the request's id in its ASGI scope."""
