"""From queued runs to outcomes: take, run, settle."""
