"""How saved trajectories look in a terminal."""
