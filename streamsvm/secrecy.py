"""Which options of the client library hold a secret, and what is shown in its place."""

from __future__ import annotations

MASK = "********"

_SECRET_WORDS = frozenset({"password", "passphrase", "secret", "pem", "token", "jaas"})
_SECRET_PARTS = ("sasl.oauthbearer.config", "assertion.claim", "kinit.cmd", "auth.user.info")


def is_secret(option: str) -> bool:
    """Return whether a librdkafka option holds a secret, in whatever spelling (`SASL_PASSWORD`, `sasl.password`)."""
    dotted = option.lower().replace("_", ".")
    return not _SECRET_WORDS.isdisjoint(dotted.split(".")) or any(part in dotted for part in _SECRET_PARTS)
