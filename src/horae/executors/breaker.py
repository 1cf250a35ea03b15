"""Leaves a destination alone while it is down, for all jobs that share it. Pure: the time is a parameter."""

from __future__ import annotations

from dataclasses import dataclass

FAILURES_TO_OPEN = 5
WINDOW_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 300.0
MOST_DESTINATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request may go now: `wait_seconds` is 0, or the time to the next probe."""

    wait_seconds: float = 0.0
    is_probe: bool = False


ADMITTED = Admission()
PROBE = Admission(is_probe=True)


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    first_failure_at: float = 0.0
    pause_seconds: float = 0.0
    open_until: float = 0.0
    has_probe: bool = False


class Breaker:
    """Opens after failures in a row, then lets one probe through at a time; a success closes it."""

    def __init__(self) -> None:
        # Only destinations that failed last time; a healthy one costs no memory.
        self._circuits: dict[str, _Circuit] = {}

    def admit(self, destination: str, now: float) -> Admission:
        """Ask before a request; every admission must be given back to `settle`."""
        circuit = self._circuits.get(destination)
        if circuit is None or not circuit.pause_seconds:
            return ADMITTED
        if now < circuit.open_until:
            return Admission(wait_seconds=circuit.open_until - now)
        if circuit.has_probe:
            return Admission(wait_seconds=FIRST_PAUSE_SECONDS)
        circuit.has_probe = True
        return PROBE

    def settle(self, destination: str, admission: Admission, now: float, *, is_healthy: bool | None) -> None:
        """Tell how an admitted request ended; `None` when it says nothing about the destination."""
        if is_healthy:
            self._circuits.pop(destination, None)
            return
        if is_healthy is False:
            self._fail(self._circuit(destination), admission, now)
        elif admission.is_probe and destination in self._circuits:
            self._circuits[destination].has_probe = False

    def _fail(self, circuit: _Circuit, admission: Admission, now: float) -> None:
        if circuit.pause_seconds:
            # Requests that were under way when the circuit opened tell nothing new; only the probe counts.
            if admission.is_probe:
                circuit.has_probe = False
                circuit.pause_seconds = min(2 * circuit.pause_seconds, LONGEST_PAUSE_SECONDS)
                circuit.open_until = now + circuit.pause_seconds
            return
        if not circuit.failures or now - circuit.first_failure_at > WINDOW_SECONDS:
            circuit.failures, circuit.first_failure_at = 0, now
        circuit.failures += 1
        if circuit.failures >= FAILURES_TO_OPEN:
            circuit.pause_seconds = FIRST_PAUSE_SECONDS
            circuit.open_until = now + FIRST_PAUSE_SECONDS

    def _circuit(self, destination: str) -> _Circuit:
        circuit = self._circuits.get(destination)
        if circuit is None:
            if len(self._circuits) >= MOST_DESTINATIONS:
                self._circuits.pop(next(iter(self._circuits)))
            circuit = self._circuits[destination] = _Circuit()
        return circuit
