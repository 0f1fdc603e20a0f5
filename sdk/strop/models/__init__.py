"""Clients for language models behind one protocol."""
