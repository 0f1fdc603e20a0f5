"""What becomes of published versions: their standing, tags, deletion."""
