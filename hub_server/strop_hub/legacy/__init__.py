"""The upload API that packaging clients speak: twine and `uv publish`."""
