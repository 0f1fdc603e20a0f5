"""What every answer over HTTP shares: ids, problems, limits, health."""
