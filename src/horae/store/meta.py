"""Small facts about the whole installation."""

from __future__ import annotations

from horae.store.database import Statement, Steps, transaction

KEEP_FIRST = Statement("INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING")

READ = Statement("SELECT value FROM meta WHERE key = :key")


@transaction
def first(key: str, value: str) -> Steps[str]:
    """Keeps the value if there is none yet; the answer is the one that is kept."""
    yield KEEP_FIRST(key=key, value=value)
    return str((yield READ(key=key))[0]["value"])
