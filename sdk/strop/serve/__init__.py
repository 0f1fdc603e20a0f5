"""Environments behind HTTP, and programs as policies: what listens on a socket (step: rollout)."""
