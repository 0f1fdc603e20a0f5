"""What happened, for mirrors and caches to follow."""
