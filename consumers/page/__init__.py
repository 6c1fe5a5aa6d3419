"""The live page: what a daemon shows people at `/`, and machines at `/status.json`.

`status` is the documented shape of the figures; `board` is where a main loop leaves them, `verdict` what they mean;
`site` answers requests from them, by `page` (HTML), `drawings` (SVG) and `markup` (which escapes everything).

Invariant: a request changes nothing and waits for nothing. The main loop replaces one immutable value; each
request reads that value once, and is answered from it in a thread of its own.
"""
