"""The audit trail: who did what, or was refused it."""
