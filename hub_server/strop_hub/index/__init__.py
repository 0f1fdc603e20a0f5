"""The open index that plain pip and uv read: plain ASGI, rendered bytes, no session."""
