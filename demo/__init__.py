"""The whole journey on one machine, for people who want to see it before they read about it."""
