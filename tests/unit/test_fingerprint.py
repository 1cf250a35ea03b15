import pytest

from horae.core.fingerprint import LONGEST, fingerprint


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        ("HTTP 503 from 10.2.0.7", "HTTP 503 from …"),
        ("order 120331 is gone\nsecond line", "order … is gone"),
        ("object at 0x7f3a11", "object at …"),
        ("run 01a1e16d-4ce0-8c0f-a8a6-daac74c05915 at 2026-11-16T03:04:05.1Z", "run … at …"),
        ("exit code 1\nPOST /sync\n503 Service Unavailable\n", "exit code 1: 503 Service Unavailable"),
        ("  spaces\t and\0 more ", "spaces and more"),
        ("\x1b[1;31mboom\x1b[0m of \x1b]0;title\x07it\x1b(B\x9b0m", "boom of it"),
        ("\x1b[31m\nloud\x07 and\x08 clear", "loud and clear"),
        ("exit code 1\nso\x1b[32mit\x1b[0m\n\x1b[0m", "exit code 1: soit"),
        ("x" * 1000, "x" * LONGEST),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(error: str, wanted: str):
    assert fingerprint(error, "exception") == wanted


@pytest.mark.parametrize("error", [None, "", " \n "])
def test_without_an_error_the_reason_tells(error: str | None):
    assert fingerprint(error, "timeout") == "timeout"
    assert fingerprint(error, None) == ""


def test_an_error_of_megabytes_is_not_read_as_a_whole():
    assert fingerprint("exit code 2\n" + "y" * 5_000_000 + "\nthe end", None) == "exit code 2: the end"
