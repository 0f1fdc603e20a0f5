"""From the replies of engines to completions: what was said, its tokens, what it cost."""
