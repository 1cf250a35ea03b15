"""What a predicate is: it looks at one job and yields what breaks the promise. Silence is the good answer.

The predicates are in three files: triggers (what was decided, and when), attempts (how it was carried out), and
standing (what must be true of a job, or between jobs). Their numbers are those of docs/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from horae.verify.records import History, Job

SETTLE_US = 60_000_000  # what is younger than this may still be on its way
STUCK_US = 600_000_000
READ_US = 10_000_000  # what happens this long before a row is read may or may not be in it


@dataclass(frozen=True, slots=True)
class Violation:
    id: str
    job_id: str
    witness: str


Predicate = Callable[[History, Job], Iterator[Violation]]
