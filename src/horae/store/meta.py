"""Small facts about the whole installation."""

from __future__ import annotations

from horae.store.database import Statement

KEEP_FIRST = Statement("INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING")

READ = Statement("SELECT value FROM meta WHERE key = :key")
