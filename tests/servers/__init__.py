"""Real servers that tests start: PostgreSQL and an S3 store, both from wheels."""
