"""Checks a recorded history against the promise, with an enumeration of due times of its own."""
