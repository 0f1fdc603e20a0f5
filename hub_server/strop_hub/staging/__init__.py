"""Releases of several files that become visible in one step."""
