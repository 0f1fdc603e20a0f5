"""What an operator does for a hub that is in use: verify, collect, back up, move."""
