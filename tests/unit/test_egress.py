"""Which addresses and URLs are let out."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from horae.core.egress import (
    REFUSED_PORTS,
    allow_ranges,
    check_url,
    is_allowed,
    literal_address,
    read_url,
    refusal,
)
from horae.core.errors import Invalid

LOOPBACK = allow_ranges("127.0.0.0/8,::1")

REFUSED_HOSTS = [
    "127.0.0.1",
    "[::1]",
    "0.0.0.0",
    "0",
    "127.1",
    "0x7f000001",
    "0X7F.1",
    "2130706433",
    "0177.0.0.1",
    "127.0.0.1.",
    "\uff11\uff12\uff17.0.0.1",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::8.8.8.8]",
    "[2002:7f00:1::1]",
    "[2001:0:7f00:1::f7f7:f7f7]",
    "[2001:0:808:808::80ff:fffe]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[fd00:ec2::254]",
    "[fe80::1%25eth0]",
    "[fec0::1]",
    "[ff02::1]",
    "10.1.2.3",
    "172.31.255.255",
    "192.168.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "localhost",
    "x.localhost",
    "LOCALHOST.",
    "metadata.google.internal",
]


@pytest.mark.parametrize("host", REFUSED_HOSTS)
def test_a_host_that_is_not_public_is_refused(host):
    assert check_url(f"http://{host}/", "/target/url")

    address = literal_address(host)
    assert address is None or not is_allowed(address, ())


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "192.0.1.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"],
)
def test_a_public_address_is_allowed(address):
    assert is_allowed(address, ())
    assert is_allowed(ipaddress.ip_address(address), ())


def test_what_is_no_address_is_refused():
    assert not is_allowed("example.com", ())
    assert not is_allowed("", ())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"])
def test_the_operator_can_allow_a_range(address):
    assert is_allowed(address, LOOPBACK)
    assert not is_allowed("10.0.0.1", LOOPBACK)


def test_allowing_all_of_ipv6_allows_no_mapped_private_ipv4():
    assert not is_allowed("::ffff:169.254.169.254", allow_ranges("::/0"))


def test_the_setting_is_read_with_spaces_and_single_addresses():
    assert [str(each) for each in allow_ranges(" 10.0.0.0/8, ::1 ,, 192.168.1.7")] == [
        "10.0.0.0/8",
        "::1/128",
        "192.168.1.7/32",
    ]
    assert allow_ranges("") == ()


def test_a_setting_that_is_no_range_is_named():
    with pytest.raises(Invalid, match="/99"):
        allow_ranges("127.0.0.0/8,10.0.0.0/99")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0", "0.0.0.0"),
        ("127.1", "127.0.0.1"),
        ("10.258", "10.0.1.2"),
        ("1.2.772", "1.2.3.4"),
        ("0x7f.0x0.0.01", "127.0.0.1"),
        ("4294967295", "255.255.255.255"),
        ("[fe80::1%25eth0]", "fe80::1"),
    ],
)
def test_every_spelling_of_an_address_is_known(text, address):
    assert str(literal_address(text)) == address


@pytest.mark.parametrize(
    "text", ["example.com", "1.2.3.4.5", "256.1.1.1", "4294967296", "08.1.1.1", "1_0", "", "9" * 5000]
)
def test_other_texts_are_no_address(text):
    assert literal_address(text) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/path",
        "example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "http:example.com",
        "http:///path",
        "http://",
        "http://user@example.com/",
        "http://a@127.0.0.1:80@example.com/",
        "http://user:pass@example.com/",
        "http://example.com\\@127.0.0.1/",
        "http://exa\tmple.com/",
        "http://example.com/a\nb",
        "http://example.com/a b",
        "http://example.com/\x00",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:/",
        "http://example.com:80:80/",
        "http://exam%70le.com/",
        "http://a..b/",
        "http://" + "a" * 64 + ".com/",
        "http://1.2.3.4.5/",
        "http://[::1/",
        "http://[example.com]/",
        "http://b\u00fccher.example/",
        "http://example.com/" + "a" * 9000,
        "http://example.com/\ud800",
    ],
)
def test_a_url_that_can_be_misread_is_refused(url):
    faults = check_url(url, "/target/url")

    assert [fault.pointer for fault in faults] == ["/target/url"]


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://example.com", "https://example.com:443"),
        ("HTTP://Example.COM:8080/a?b=c#d", "http://example.com:8080"),
        ("http://evil#@127.0.0.1/", "http://evil:80"),
        ("http://under_score.example./x", "http://under_score.example.:80"),
        ("http://8.8.8.8:81/ü", "http://8.8.8.8:81"),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]:80"),
    ],
)
def test_a_plain_url_is_read(url, origin):
    assert check_url(url, "/url") == []
    assert read_url(url).origin == origin


@given(
    st.text(alphabet="abz019.-_@:[]%#?/\\ üＡ。\t", max_size=24).map(lambda rest: f"http://{rest}")
    | st.from_regex(r"https?://[a-z0-9.\[\]:@#?/-]{1,20}", fullmatch=True)
)
def test_check_and_connection_read_every_accepted_url_alike(url):
    try:
        destination = read_url(url)
    except ValueError:
        return

    other = URL(url)
    assert other.scheme == destination.scheme
    assert other.port == destination.port
    assert other.raw_user is None
    assert literal_address(other.raw_host or "") == destination.address
    if destination.address is None:
        assert other.raw_host == destination.host


@pytest.mark.parametrize("port", sorted(REFUSED_PORTS))
def test_ports_of_other_services_are_refused_unless_the_address_is_allowed(port):
    assert refusal("8.8.8.8", port, ()) is not None
    assert check_url(f"http://example.com:{port}/", "/url")
    assert refusal("127.0.0.1", port, LOOPBACK) is None
    assert check_url(f"http://127.0.0.1:{port}/", "/url", LOOPBACK) == []


def test_a_name_on_such_a_port_is_judged_at_connection_when_ranges_are_allowed():
    assert check_url("http://db.example:5432/", "/url", LOOPBACK) == []


def test_loopback_is_accepted_where_it_is_allowed():
    assert check_url("http://127.0.0.1:9000/", "/url", LOOPBACK) == []
    assert check_url("http://localhost:9000/", "/url", LOOPBACK) == []
    assert check_url("http://2130706433:9000/", "/url", LOOPBACK)


def test_the_reason_of_a_refusal_does_not_repeat_the_address():
    assert "10.9.8.7" not in (refusal("10.9.8.7", 80, ()) or "10.9.8.7")
