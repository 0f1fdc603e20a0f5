"""Programs that are sent into a sandbox and run there; they import the standard library only."""
