"""How the author's machine makes what is pushed: selects, builds, repacks, describes."""
