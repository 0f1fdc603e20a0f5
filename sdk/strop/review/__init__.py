"""What is done with saved trajectories: check, score again, look at (step: reward).

`files` finds and reads, `schema` and `validation` check, `rescoring` scores again, `summary`
counts, `escaping` makes hostile text harmless, `page` draws a page for a browser.
"""
