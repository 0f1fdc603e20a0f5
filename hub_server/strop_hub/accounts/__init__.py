"""Users, owners and tokens."""
