"""Which addresses http jobs and webhooks may reach, and which URLs can be read in only one way.

Pure: the executor asks again for the real address of every connection; see `executors/client.py`.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, unquote, urlsplit

from horae.core.errors import Fault, Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Allow = tuple[Network, ...]

MAX_URL_CHARACTERS = 8192

# Services that act on plain bytes and so can be driven by a crafted HTTP request.
REFUSED_PORTS = frozenset(
    {22, 25, 110, 143, 465, 587, 2181, 2375, 2376, 3306, 5432, 6379, 9092, 11211, 27017},
)

# Written out, not asked of `ipaddress.is_global`: its answers differ between Python versions.
_NOT_PUBLIC_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # the host of an Azure machine: a public number for an inner service
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))

_MAPPED = IPv6Network("::ffff:0:0/96")
# Forms that hold an IPv4 address in the last 32 bits: translated, compatible, NAT64. Local NAT64 (64:ff9b:1::/48)
# is not among them: its gateway may look for the address elsewhere, so what is in the tail proves nothing.
_TAIL_FORMS = tuple(IPv6Network(text) for text in ("::ffff:0:0:0/96", "::/96", "64:ff9b::/96"))

# Names with a fixed meaning, so that a job for them is refused when it is made, not when it first runs.
_KNOWN_NAMES = {
    "localhost": "127.0.0.1",
    "metadata": "169.254.169.254",
    "metadata.google.internal": "169.254.169.254",
    "metadata.goog": "169.254.169.254",
    "instance-data": "169.254.169.254",
    "instance-data.ec2.internal": "169.254.169.254",
}

_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~-]+)?\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a URL leads. `address` is set when the host is an address and not a name."""

    scheme: str
    host: str
    port: int
    address: Address | None

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def allow_ranges(text: str) -> Allow:
    """Read HORAE_EGRESS_ALLOW: addresses and CIDR ranges, separated by commas."""
    ranges: list[Network] = []
    for word in (part.strip() for part in text.split(",")):
        if not word:
            continue
        try:
            ranges.append(ip_network(word, strict=False))
        except ValueError:
            fault = Fault("/egress_allow", f"{word!r} is not an address range.", 'Write "10.0.0.0/8,::1".')
            raise Invalid([fault]) from None
    return tuple(ranges)


@dataclass(frozen=True, slots=True)
class Proxy:
    """`lines` are what it wants to hear about us."""

    host: str
    port: int
    lines: tuple[str, ...] = field(repr=False)


def read_proxy(url: str) -> Proxy | None:
    """HORAE_EGRESS_PROXY: `http://host:port`, with a name and a password if it wants them; None when unset."""
    if not url:
        return None
    parts = urlsplit(url)
    is_plain = unquote(url).isprintable() and not (parts.path.strip("/") or parts.query or parts.fragment)
    if parts.scheme != "http" or not parts.hostname or not _port_of(parts) or not is_plain:
        detail = "The proxy is not a URL with http and a port."
        raise Invalid([Fault("/egress_proxy", detail, "Write http://proxy.example:3128.")])
    lines: tuple[str, ...] = ()
    if parts.username is not None:
        told = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines = (f"Proxy-Authorization: Basic {b64encode(told.encode()).decode()}",)
    return Proxy(parts.hostname, parts.port or 0, lines)


def _port_of(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        return None


def is_allowed(address: str | Address, allow: Allow) -> bool:
    """Whether a connection to this very address may be made; anything unreadable may not."""
    found = _read_address(address) if isinstance(address, str) else address
    if found is None:
        return False
    found = _unmapped(found)
    if is_listed(found, allow):
        return True
    if isinstance(found, IPv4Address):
        return not any(found in network for network in _NOT_PUBLIC_V4)
    inner = _embedded(found)
    if inner:
        return all(is_allowed(each, allow) for each in inner)
    return found in _PUBLIC_V6 and not any(found in network for network in _NOT_PUBLIC_V6)


def is_listed(address: Address, allow: Allow) -> bool:
    """Whether the operator named it; an IPv4 address in its IPv6 dress is the IPv4 address."""
    plain = _unmapped(address)
    return any(plain in network for network in allow)


def refusal(address: str | Address, port: int, allow: Allow) -> str | None:
    """Why a connection may not be made, in words that do not repeat the address; None when it may."""
    if not is_allowed(address, allow):
        return "the address is not public and not in HORAE_EGRESS_ALLOW"
    found = _read_address(address) if isinstance(address, str) else address
    if port in REFUSED_PORTS and not (found and is_listed(found, allow)):
        return f"port {port} is refused for addresses that are not in HORAE_EGRESS_ALLOW"
    return None


def literal_address(host: str) -> Address | None:
    """The address that a resolver would read in `host` without asking anybody, in any of its spellings."""
    text = unicodedata.normalize("NFKC", host).replace("\u3002", ".").strip("[]")
    text = text.removesuffix(".")
    return _read_address(text.replace("%25", "%")) or _read_numbers(text)


def check_url(url: str, pointer: str, allow: Allow = ()) -> list[Fault]:
    """What is wrong with the URL of a job. A name is looked up, and its addresses checked, at each connection."""
    try:
        destination = read_url(url)
    except ValueError as error:
        return [Fault(pointer, f"{error}.", 'Write it like "https://example.com/path".')]
    why = refused_unseen(destination, allow)
    if why is None:
        return []
    hint = "Use a public address, or let an operator add the range to HORAE_EGRESS_ALLOW."
    return [Fault(pointer, f"{destination.host} cannot be reached: {why}.", hint)]


@lru_cache(maxsize=4096)
def read_url(url: str) -> Destination:
    """The only reading of a URL. What two parsers could read differently raises ValueError."""
    if len(url) > MAX_URL_CHARACTERS:
        raise ValueError(f"The URL is longer than {MAX_URL_CHARACTERS} characters")
    # Of all white space only the plain blank is printable.
    if "\\" in url or " " in url or not url.isprintable():
        raise ValueError("The URL holds a space, a backslash or a control character")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        raise ValueError("The URL must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("The URL holds a user name or password; send them in an Authorization header")
    return _read_authority(parts.scheme, parts.netloc)


# Many URLs share a host.
@lru_cache(maxsize=4096)
def _read_authority(scheme: str, netloc: str) -> Destination:
    if not netloc:
        raise ValueError("The URL has no host")
    match = _AUTHORITY.fullmatch(netloc)
    if match is None:
        raise ValueError(f"{netloc!r} is not a host with an optional port{_ascii_hint(netloc)}")
    host = match["host"].lower()
    port = int(match["port"] or (443 if scheme == "https" else 80))
    if not 1 <= port <= 65535:
        raise ValueError(f"Port {port} is outside 1-65535")
    address = literal_address(host)
    if address is None:
        _check_name(host)
    elif isinstance(address, IPv4Address) and host != str(address):
        raise ValueError(f"{host} is another spelling of {address}; write {address}")
    return Destination(scheme, host, port, address)


def _ascii_hint(netloc: str) -> str:
    if netloc.isascii():
        return ""
    address = literal_address(netloc)
    if address is not None:
        return f"; it is another spelling of {address}"
    try:
        return f"; write {netloc.encode('idna').decode()}"
    except UnicodeError:
        return ""


def _check_name(host: str) -> None:
    name = host.removesuffix(".")
    if host.startswith("["):
        raise ValueError(f"{host} is not an IPv6 address")
    labels = name.split(".")
    if len(name) > 253 or not all(1 <= len(label) <= 63 for label in labels) or labels[-1].isdigit():
        raise ValueError(f"{host!r} is not a host name")


def refused_unseen(destination: Destination, allow: Allow, *, is_final: bool = False) -> str | None:
    """Why a connection will not be made, as far as can be told before a name is looked up.

    `is_final` when nobody will see its addresses here: then a port that is refused for most is refused.
    """
    name = destination.host.removesuffix(".")
    known = "127.0.0.1" if name.endswith(".localhost") else _KNOWN_NAMES.get(name)
    address = destination.address or (ip_address(known) if known else None)
    if address is not None:
        return refusal(address, destination.port, allow)
    if destination.port in REFUSED_PORTS and (is_final or not allow):
        return f"port {destination.port} is refused"
    return None


def _read_address(text: str) -> Address | None:
    try:
        # The zone says which cable, not which address: `fe80::1%eth0`.
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _read_numbers(text: str) -> IPv4Address | None:
    """The C library's reading: one to four numbers, hexadecimal or octal too, the last filling the rest."""
    words = text.split(".")
    if len(words) > 4 or not all(_NUMBER.fullmatch(word) for word in words):
        return None
    try:
        *heads, last = (_read_number(word) for word in words)
    except ValueError:
        return None
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        return None
    return IPv4Address(sum(head << (24 - 8 * place) for place, head in enumerate(heads)) + last)


def _read_number(word: str) -> int:
    if len(word) > 64:
        raise ValueError("too long for an address")
    if word[:2] in {"0x", "0X"}:
        return int(word[2:] or "0", 16)
    return int(word, 8 if word.startswith("0") else 10)


def _embedded(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that a gateway would take out of this one; none for a plain address."""
    if any(address in network for network in _TAIL_FORMS):
        return (_tail(address),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo or ()


def _unmapped(address: Address) -> Address:
    if isinstance(address, IPv6Address) and address in _MAPPED:
        return _tail(address)
    return address


def _tail(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
