"""Write, share and run reinforcement-learning environments for language models."""
