"""What is done with saved trajectories: check, score again, look at (step: reward).

`files` finds and reads, `schema`, `stamps` and `validation` check, `rescoring` scores again,
`overview` counts, `facts` tells things in a line, `escaping` makes hostile text harmless, `page`
draws a page for a browser.
"""
