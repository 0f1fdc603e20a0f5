"""The write path: what arrives becomes a published version, or nothing."""
