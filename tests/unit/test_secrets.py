from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.errors import Conflict
from horae.core.secrets import MASK, SHORTEST, Redactor, fill, fill_url, names_in, stand_in
from horae.core.targets import check_target
from horae.executors.shell import Output
from horae.vault import Vault, key_id_of

TARGET = {"url": "https://example.com/{{ secret.A }}", "headers": {"X": "Bearer {{secret.B}}"}, "body": [1, "{{ a }}"]}
KEY, OTHER = "k" * 32, "o" * 32


def test_references_are_found_filled_and_stood_in_for():
    assert names_in(TARGET) == {"A", "B"}
    assert fill(TARGET, {"A": "1", "B": "{{ secret.A }}"}) == {
        "url": "https://example.com/1",
        "headers": {"X": "Bearer {{ secret.A }}"},  # a value is not looked into
        "body": [1, "{{ a }}"],
    }
    assert stand_in(TARGET)["url"] == "https://example.com/secret"


def test_a_target_with_secrets_is_checked_like_any_other():
    assert check_target("http", TARGET, "/target") == []
    (fault,) = check_target("http", {"url": "ftp://{{ secret.A }}"}, "/target")
    assert fault.pointer == "/target/url"
    (fault,) = check_target("http", {"url": "https://example.com/{{ secret.ü }}"}, "/target")
    assert "not the name of a secret" in fault.detail
    (fault,) = check_target("shell", {"command": "curl {{ secret.A }}"}, "/target")
    assert (fault.pointer, "env" in fault.hint) == ("/target/command", True)


@pytest.mark.parametrize(
    "form",
    [
        lambda text: text,
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
        lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        json.dumps,
        lambda text: "https://x/?q=" + quote_plus(text),
        lambda text: "https://x/" + quote(text),
        lambda text: "https://x/" + quote(text, safe=""),
        lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
        lambda text: re.sub("%..", lambda match: match[0].lower(), quote_plus(text)),
        lambda text: quote(text, safe="!'()*"),
        lambda text: quote(text, safe=";,/?:@&=+$!'()*#"),
    ],
)
def test_a_secret_is_masked_in_the_forms_it_travels_in(form):
    secret = 'pa"ss wörd/+?&(1)'
    text = Redactor({"A": secret}).text(f"before {form(secret)} after")

    assert MASK in text
    assert form(secret)[-12:-4] not in text
    assert text.startswith("before ")
    assert text.endswith(" after")


@given(st.text(min_size=4, max_size=40), st.binary(max_size=7), st.binary(max_size=7), st.booleans(), st.booleans())
def test_of_a_secret_inside_base64_at_most_an_edge_is_left(secret, before, after, is_url_safe, is_padded):
    raw = secret.encode(errors="ignore")
    encode = base64.urlsafe_b64encode if is_url_safe else base64.b64encode
    encoded = encode(before + raw + after).decode()
    shown = Redactor({"A": raw.decode()}).text(encoded if is_padded else encoded.rstrip("="))

    if len(raw.decode()) >= 4:
        # A character that stands for bits of two bytes goes with neither; one at each edge.
        left = 4 * (len(before) + 1) // 3 + 4 * (len(after) + 1) // 3 + 4
        assert MASK in shown
        assert len(shown.replace(MASK, "")) <= left


def test_the_password_of_a_basic_header_is_masked():
    told = base64.b64encode(b"user:correct horse").decode()

    shown = Redactor({"A": "correct horse"}).text(f"Authorization: Basic {told}")

    assert shown == f"Authorization: Basic {told[:7]}{MASK}"


def test_a_line_of_a_secret_with_lines_is_masked_without_the_others():
    redactor = Redactor({"A": "-----BEGIN KEY-----\nMIIEabcdefgh\n}\n-----END KEY-----\n"})

    assert redactor.text("read MIIEabcdefgh\r\n}\r\n-----END KEY-----") == f"read {MASK}\r\n}}\r\n{MASK}"


def test_secrets_that_overlap_are_masked_as_one():
    assert Redactor({"A": "abcdef", "B": "defghi"}).text("xabcdefghix, abcdef") == f"x{MASK}x, {MASK}"


@given(st.text(min_size=4, max_size=12), st.lists(st.integers(1, 7), max_size=30), st.text(max_size=20))
def test_output_in_pieces_is_masked_as_a_whole_would_be(secret, cuts, around):
    text = f"{around}{secret}{around}{secret}"
    redactor, rest, shown = Redactor({"A": secret}), text, ""
    for cut in cuts:
        piece, rest = rest[:cut], rest[cut:]
        shown += redactor.stream(piece)
    shown += redactor.stream(rest) + redactor.end()

    if secret not in MASK and secret not in around:
        assert secret not in shown.replace(MASK, "\x00")


def test_output_is_held_back_only_where_a_secret_may_have_begun():
    redactor = Redactor({"A": "secret-one", "B": "secret-one-and-more"})

    assert redactor.stream("a line\n") == "a line\n"
    assert redactor.stream("the secr") == "the "
    assert redactor.stream("etary\nsecret-one") == "secretary\n"
    assert redactor.stream("-and-more, secret-one") == f"{MASK}, "
    assert redactor.stream("!\nsec") == f"{MASK}!\n"
    assert redactor.end() == "sec"


def test_a_secret_that_ends_in_the_beginning_of_another_is_masked():
    redactor = Redactor({"A": "xxab", "B": "abcdef"})

    assert redactor.stream("xxab") + redactor.stream(" ab") + redactor.stream("cdef") == f"{MASK} {MASK}"


def test_short_secrets_mask_nothing():
    assert Redactor({"A": "1"}).text("11 of 12") == "11 of 12"


def test_what_is_sealed_opens_with_its_key_in_its_place_only():
    vault = Vault(KEY)
    sealed = vault.seal("the secret", "tenant", "name")

    assert vault.open(sealed, "tenant", "name") == "the secret"
    assert "secret" not in sealed
    assert sealed != vault.seal("the secret", "tenant", "name")
    with pytest.raises(Conflict, match="changed"):
        vault.open(sealed, "other", "name")
    with pytest.raises(Conflict, match="another HORAE_SECRET_KEY"):
        Vault(OTHER).open(sealed, "tenant", "name")
    head, body = sealed.split(".")
    with pytest.raises(Conflict):
        vault.open(f"{head}.{'B' if body[0] == 'A' else 'A'}{body[1:]}", "tenant", "name")


def test_the_old_key_opens_but_does_not_seal():
    sealed = Vault(OTHER).seal("x", "t", "n")
    both = Vault(KEY, OTHER)

    assert both.open(sealed, "t", "n") == "x"
    assert key_id_of(both.seal("x", "t", "n")) == both.key_id == Vault(KEY).key_id


def test_keys_for_different_purposes_differ():
    vault = Vault(KEY)
    assert len({*vault.derive("a"), *vault.derive("b"), *Vault(OTHER).derive("a")}) == 3
    assert Vault(OTHER, KEY).derive("a") == [*Vault(OTHER).derive("a"), *vault.derive("a")]


KEY = "SECRETVALUE-0123456789-abcdefghij-KLMNOPQRSTUV"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HTTP 500 from h\n" + "x" * 20 + KEY[:40], "HTTP 500 from h\n" + "x" * 20 + "***"),
        (f"exit code 1\n{KEY[-36:]}0000", "exit code 1\n***0000"),
        (f"…{KEY[-5:]} and {KEY} and more", "…*** and *** and more"),
        ("nothing to see\nhere", "nothing to see\nhere"),
        (f"{KEY[:3]} is too little to tell", f"{KEY[:3]} is too little to tell"),
    ],
)
def test_what_a_cut_left_of_a_secret_is_masked(text, shown):
    assert Redactor({"KEY": KEY}).torn(text) == shown


@pytest.mark.parametrize("piece", [1, 7, 4096])
@pytest.mark.parametrize("key", [KEY, "PÄSSWÖRT-ÄÖÜ-" * 4])
def test_a_secret_across_the_place_where_output_is_cut_off_does_not_show_its_beginning(key, piece):
    for shown in range(0, len(key.encode()), 3):
        output, redactor = Output(100 + shown), Redactor({"KEY": key})
        raw = (b"x" * 100 + key.encode() + b"y" * 1000) * 3
        text = ""
        for start in range(0, len(raw), piece):
            output.add(raw[start : start + piece])
            text += redactor.stream(output.take(is_last=False))
        text += redactor.stream(output.take(is_last=True)) + redactor.end()

        assert "\n[output truncated]\n" in text
        assert text.endswith(" more bytes were not kept]\n")
        assert key[:SHORTEST] not in text, (shown, text)
        assert text.startswith("x" * 100)


def test_long_texts_of_a_result_are_taken_for_shortened_ones():
    redactor = Redactor({"KEY": KEY})
    cut = "x" * 5000 + KEY[:30]

    assert redactor.value({"body": cut, "short": KEY[:30]}) == {"body": "x" * 5000 + "***", "short": KEY[:30]}


@pytest.mark.parametrize(
    ("url", "filled"),
    [
        ("https://h/u?t={{ secret.A }}&b=1", "https://h/u?t=pa%23ss%26x%3D1%3F/%20z&b=1"),
        ("https://h/{{ secret.A }}", "https://h/pa%23ss%26x%3D1%3F/%20z"),
        ("{{ secret.U }}/more", "https://inner.example:8/a?b=c#d/more"),
        ("http://{{ secret.H }}/x", "http://inner.example:8080/x"),
        ("https://h/?t={{ secret.E }}", "https://h/?t=a%2Fb%25c"),
        ("https://h/?t={{ secret.L }}", "https://h/?t=two\nlines"),
    ],
)
def test_a_secret_in_a_path_or_a_query_is_a_part_of_it_and_cannot_end_it(url, filled):
    values = {"A": "pa#ss&x=1?/ z", "U": "https://inner.example:8/a?b=c#d", "H": "inner.example:8080"}

    assert fill_url(url, values | {"E": "a%2Fb%c", "L": "two\nlines"}) == filled
