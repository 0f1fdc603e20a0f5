"""The read path: find environments, resolve references, download files."""
