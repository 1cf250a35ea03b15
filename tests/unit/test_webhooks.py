from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import sha256

import pytest

from horae.core.webhooks import ATTEMPTS, gap_us, new_secret, signature, watches_of_job

SECRET = new_secret(bytes(range(32)))


def accepts(secret: str, headers: dict[str, str], body: str) -> bool:
    """The check of the Standard Webhooks specification, written apart from ours."""
    key = b64decode(secret.split("_", 1)[1])
    signed = ".".join([headers["webhook-id"], headers["webhook-timestamp"], body]).encode()
    wanted = "v1," + b64encode(hmac.digest(key, signed, sha256)).decode()
    return wanted in headers["webhook-signature"].split(" ")


def sign(*secrets: str, body: str = '{"type":"run.failed"}') -> dict[str, str]:
    return {
        "webhook-id": "m1",
        "webhook-timestamp": "1800000000",
        "webhook-signature": signature(secrets, "m1", 1800000000, body),
    }


def test_a_known_signature():
    # The example of the specification.
    told = signature(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}'
    )
    assert told == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("part", "value"), [("webhook-id", "m2"), ("webhook-timestamp", "1800000001"), ("body", '{"type":"run.failed"} ')]
)
def test_s36_a_change_of_any_part_breaks_the_signature(part: str, value: str):
    headers, body = sign(SECRET), '{"type":"run.failed"}'
    assert accepts(SECRET, headers, body)

    assert not accepts(SECRET, headers | {part: value}, value if part == "body" else body)


def test_s38_while_a_secret_is_changed_both_sign():
    other = new_secret(bytes(32))
    headers = sign(other, SECRET)

    assert accepts(SECRET, headers, '{"type":"run.failed"}')
    assert accepts(other, headers, '{"type":"run.failed"}')
    assert not accepts(SECRET, sign(other), '{"type":"run.failed"}')


def test_the_gaps_grow_over_three_days_and_end():
    gaps = [gap_us("m1", attempt) for attempt in range(1, ATTEMPTS + 1)]

    assert gaps[-1] is None
    waits = [gap for gap in gaps if gap is not None]
    assert len(waits) == ATTEMPTS - 1
    assert 60 < sum(waits) / 3.6e9 < 80  # hours


def test_rules_of_a_job_become_watches():
    rules = [{"url": "https://a", "on": ["failure", "failure"]}, {"channel": "ops", "on": ["always"]}]

    found = watches_of_job("t", "j", rules, {"ops": "id-1"})

    assert {(watch.event, watch.webhook_id, watch.url) for watch in found} == {
        ("run.failed", "", "https://a"),
        *((f"run.{status}", "id-1", "") for status in ("succeeded", "failed", "cancelled", "unknown", "skipped")),
    }
