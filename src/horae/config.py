"""Settings from flags and environment into one frozen value; a misspelt variable is refused, not ignored."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from horae.core.access import ROLES as ROLE_NAMES
from horae.core.egress import allow_ranges, read_proxy, read_url
from horae.core.errors import Fault, Invalid
from horae.failpoints import parse

ROLES = ("api", "scheduler", "worker")
LOOPBACK = "127.0.0.0/8,::1"
NO_ADDRESS = "The address of PostgreSQL cannot be read."
ADDRESS = "Write postgresql://user:password@host:port/database, with %2F for a slash in the password, %23 for a #."


@dataclass(frozen=True, slots=True)
class Settings:
    """One field is one variable `HORAE_…` and one flag `--…`."""

    database_url: str = field(default="sqlite:///.horae/horae.db", repr=False)
    queue_url: str = ""
    host: str = "127.0.0.1"
    port: int = 8700
    health_port: int = 0
    roles: str = "api,scheduler,worker"
    admin_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    old_secret_key: str = field(default="", repr=False)
    worker_slots: int = 100
    worker_queues: str = "default"
    lease_seconds: float = 15.0
    heartbeat_seconds: float = 5.0
    visibility_seconds: float = 15.0
    lookahead_seconds: float = 15.0
    egress_allow: str = ""
    egress_proxy: str = field(default="", repr=False)
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_tenant_claim: str = "horae_tenant"
    oidc_role_claim: str = "horae_role"
    oidc_roles: str = ""
    shell: str = "off"
    retention_days: float = 30.0
    failpoints: str = ""
    testing: bool = False
    is_dev: bool = False

    @property
    def role_set(self) -> frozenset[str]:
        return frozenset(_words(self.roles))

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(_words(self.worker_queues))

    @property
    def data_folder(self) -> Path:
        """Where this process may keep a file of its own."""
        return Path(self.database_url.removeprefix("sqlite:///")).parent if self.is_sqlite else Path(".horae")

    @property
    def oidc_role_map(self) -> dict[str, str]:
        """Values of the role claim and the roles that they stand for: `platform=admin,devs=editor`."""
        return {
            word.strip(): role.strip() for word, _, role in (part.partition("=") for part in _words(self.oidc_roles))
        }

    @property
    def is_sqlite(self) -> bool:
        return self.database_url.startswith("sqlite:///")


# Read elsewhere: by the client, or by tests.
OTHER_VARIABLES = frozenset({"HORAE_URL", "HORAE_API_KEY", "HORAE_CONTEXT", "HORAE_DATA", "HORAE_TESTING"})
_INTERNAL = frozenset({"is_dev"})
MOST = 1_000_000
_LEAST = {
    "port": 0,
    "worker_slots": 1,
    "lease_seconds": 1,
    "heartbeat_seconds": 0.5,
    "visibility_seconds": 1,
    "lookahead_seconds": 0,
    "retention_days": 0.01,
}


def read_settings(
    environment: Mapping[str, str], flags: Mapping[str, object], *, is_dev: bool = False, is_server: bool = True
) -> Settings:
    """Flags win over the environment, the environment over the defaults. Raises Invalid with every fault.

    What only matters to a server that listens, such as its address and its keys, is not asked of other commands.
    """
    faults = _unknown(environment)
    values: dict[str, Any] = {"is_dev": is_dev}
    if is_dev:
        values |= {"egress_allow": LOOPBACK, "shell": "on"}
    for item in fields(Settings):
        given = flags.get(item.name)
        if given is None:
            given = environment.get(f"HORAE_{item.name.upper()}")
        if given is None or item.name in _INTERNAL:
            continue
        try:
            values[item.name] = _convert(item.name, str(given), str(item.type))
        except ValueError as error:
            faults.append(Fault(f"HORAE_{item.name.upper()}", str(error)))
    if faults:
        raise Invalid(faults, "settings")
    settings = Settings(**values)
    faults = _check(settings) + (_check_exposure(settings) if is_server else [])
    if faults:
        raise Invalid(faults, "settings")
    return settings


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _unknown(environment: Mapping[str, str]) -> list[Fault]:
    settings = {f"HORAE_{field.name.upper()}" for field in fields(Settings) if field.name not in _INTERNAL}
    faults = []
    for name in environment:
        is_known = name in settings | OTHER_VARIABLES or name.startswith("HORAE_TEST_")
        if name.startswith("HORAE_") and not is_known:
            near = difflib.get_close_matches(name, settings, 3, 0.5)
            hint = f"Did you mean {' or '.join(near)}?" if near else "See the list of settings in docs/settings.md."
            faults.append(Fault(name, f"{name} is not a setting of horae.", hint))
    return faults


def _convert(name: str, text: str, kind: str) -> object:
    if kind == "bool":
        return text.lower() in ("1", "true", "yes", "on")
    if kind in ("int", "float"):
        try:
            number = int(text) if kind == "int" else float(text)
        except ValueError:
            raise ValueError(f'"{text}" is not a number.') from None
        least, most = _LEAST.get(name, 0), 65_535 if name.endswith("port") else MOST
        if not least <= number <= most:
            raise ValueError(f"{text} is out of range: {least} to {most}.")
        return number
    return text.strip()


def _check(settings: Settings) -> list[Fault]:
    faults = []
    wrong = sorted(settings.role_set - set(ROLES))
    if wrong:
        faults.append(Fault("HORAE_ROLES", f'"{wrong[0]}" is not a role.', f"Choose from {', '.join(ROLES)}."))
    if not settings.database_url.startswith(("sqlite:///", "postgresql://", "postgres://")):
        hint = "Write sqlite:///path/to/file.db or postgresql://user:password@host:port/db."
        faults.append(Fault("HORAE_DATABASE_URL", "The database URL is neither SQLite nor PostgreSQL.", hint))
    elif not settings.is_sqlite and not is_postgres_address(settings.database_url):
        faults.append(Fault("HORAE_DATABASE_URL", NO_ADDRESS, ADDRESS))
    if settings.database_url == "sqlite:///":
        faults.append(Fault("HORAE_DATABASE_URL", "The SQLite URL names no file.", "Write sqlite:///horae.db."))
    if settings.queue_url:
        detail = "Redis and Kafka are fast lanes to come; this release uses the database as the queue."
        faults.append(Fault("HORAE_QUEUE_URL", detail, "Leave HORAE_QUEUE_URL unset."))
    if settings.shell not in ("off", "sandbox", "on"):
        faults.append(Fault("HORAE_SHELL", f'"{settings.shell}" is not a mode.', "Choose off, sandbox or on."))
    if settings.failpoints and not settings.testing:
        faults.append(Fault("HORAE_FAILPOINTS", "Fault points are for tests.", "Set HORAE_TESTING=1 as well."))
    try:
        parse(settings.failpoints)
    except Invalid as error:
        faults += error.faults
    if settings.heartbeat_seconds * 2 > settings.visibility_seconds:
        detail = "A worker must be able to miss one heartbeat."
        faults.append(Fault("HORAE_VISIBILITY_SECONDS", detail, "Set it to at least twice HORAE_HEARTBEAT_SECONDS."))
    return faults + _check_oidc(settings) + _check_egress(settings)


def is_postgres_address(url: str) -> bool:
    """Whether hosts and ports can be told apart. What is wrong is not repeated: behind a slash in a password, the part
    before it is taken for a port.
    """
    try:
        hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    except ValueError:
        return False
    ports = (host.rpartition("]")[2].partition(":")[2] for host in hosts)
    return all(not port or (port.isdecimal() and int(port) <= 65_535) for port in ports)


def _check_egress(settings: Settings) -> list[Fault]:
    faults: list[Fault] = []
    for read, name in ((allow_ranges, "egress_allow"), (read_proxy, "egress_proxy")):
        try:
            read(getattr(settings, name))
        except Invalid as error:
            faults += [Fault(f"HORAE_{name.upper()}", fault.detail, fault.hint) for fault in error.faults]
    return faults


def _check_oidc(settings: Settings) -> list[Fault]:
    faults = []
    wrong = sorted(set(settings.oidc_role_map.values()) - set(ROLE_NAMES))
    if wrong:
        hint = f"Write group=role,group=role with roles from {', '.join(ROLE_NAMES)}."
        faults.append(Fault("HORAE_OIDC_ROLES", f'"{wrong[0]}" is not a role.', hint))
    if not settings.oidc_issuer:
        return faults
    try:
        issuer = read_url(settings.oidc_issuer)
        is_safe = issuer.scheme == "https" or (issuer.address is not None and issuer.address.is_loopback)
    except ValueError:
        is_safe = False
    if not is_safe:
        hint = "Write https://login.example.com, as the `iss` of its tokens has it."
        faults.append(Fault("HORAE_OIDC_ISSUER", "The issuer is not a URL with https.", hint))
    if not settings.oidc_audience:
        detail = "Without an audience, tokens that the issuer made for others would open this door."
        faults.append(Fault("HORAE_OIDC_AUDIENCE", detail, "Set it to the `aud` of tokens for horae."))
    return faults


def _check_exposure(settings: Settings) -> list[Fault]:
    if settings.is_dev and not _is_loopback(settings.host):
        detail = f"`horae dev` has no authentication and binds to loopback only; {settings.host} is not loopback."
        return [Fault("HORAE_HOST", detail, "Use `horae serve`, which asks for a key.")]
    if not settings.is_dev and not settings.is_sqlite and not settings.secret_key:
        hint = "Set HORAE_SECRET_KEY to any text of 32 characters or more, the same on every node."
        return [Fault("HORAE_SECRET_KEY", "`serve` on PostgreSQL needs a secret key.", hint)]
    keys = {"HORAE_SECRET_KEY": settings.secret_key, "HORAE_OLD_SECRET_KEY": settings.old_secret_key}
    return [
        Fault(name, "The secret key is too short.", "Use 32 characters or more.")
        for name, key in keys.items()
        if key and len(key) < 32
    ]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
