"""What answers over HTTP: metrics, probes and pages.

`head` reads requests, `access` says by which names, `connections` says which connection goes when there are too many,
`answers` makes the bytes, and `server` is the loop that joins them.
"""
