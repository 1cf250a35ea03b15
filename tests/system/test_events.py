"""The event stream of a real process, before and after it died."""

from __future__ import annotations

import http.client
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from tests.system.harness import Process


def events(server: Process, last: str = "") -> Generator[tuple[str, str], None, None]:
    """The id and the data of each event; what comes first says that the stream is open."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/api/v1/events", headers={"Last-Event-ID": last} if last else {})
    with closing(connection), connection.getresponse() as answer:
        assert (answer.status, answer.readline()[:1]) == (200, b":")
        yield "", ""
        fields: dict[str, str] = {}
        while line := answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value
            if name == "" and "data" in fields:
                yield fields["id"], fields["data"]
                fields = {}


def test_a_listener_goes_on_where_a_killed_process_left_it(tmp_path: Path) -> None:
    first = Process(tmp_path, "dev")
    second: Process | None = None
    try:
        first.wait_ready()
        with closing(events(first)) as heard:
            next(heard)
            first.call("POST", "/v1/jobs", {"name": "before", "type": "noop"})
            last = next(id_ for id_, data in heard if '"before"' in data)
        # Nobody hears of it: the process dies while its listener is away.
        first.call("POST", "/v1/jobs", {"name": "unheard", "type": "noop"})
        first.kill()

        second = Process(tmp_path, "dev")
        second.wait_ready()
        second.call("POST", "/v1/jobs", {"name": "after", "type": "noop"})
        told = ""
        with closing(events(second, last)) as again:
            while '"after"' not in told:
                told += next(again)[1]

        assert '"unheard"' in told
    finally:
        for process in (first, second):
            if process is not None and process.process.poll() is None:
                process.kill()
