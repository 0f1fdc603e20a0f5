"""The catalog that people read in a browser: server-rendered, no script needed."""
