"""For those who are called: makes an endpoint idempotent by key, refuses attempts given up, checks signatures.

The standard library alone; this folder can be copied into a project that does not install horae. Two ways:

- `Inbox.once` on your own connection: the effect and its key are one transaction, so the effect happens exactly once.
- `IdempotentWSGI`, `IdempotentASGI` around an app that knows nothing of it: each key is worked on by one call at a
  time, and a finished one is answered from memory. A process that dies after its effect and before its answer leaves it
  unknown whether it happened; the next attempt then does it again.
"""

from .inbox import Answer, Entry, Inbox, StaleFence, State
from .middleware import IdempotentASGI, IdempotentWSGI
from .signatures import BadSignature, verify

__all__ = [
    "Answer",
    "BadSignature",
    "Entry",
    "IdempotentASGI",
    "IdempotentWSGI",
    "Inbox",
    "StaleFence",
    "State",
    "verify",
]
