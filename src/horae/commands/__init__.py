"""The use cases that change something, by what they change. Who may is asked before."""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_bytes

from horae.commands.access import FleetCommands, KeyCommands, TenantCommands
from horae.commands.backfill import Backfilled, BackfillRequest
from horae.commands.caller import Caller, check_payload
from horae.commands.jobs import TAKEN, JobCommands, undone
from horae.commands.letters import MOST_REPLAYS, LetterCommands
from horae.commands.named import CalendarCommands, SecretCommands
from horae.commands.runs import RunCommands, RunRequest
from horae.commands.webhooks import WebhookCommands
from horae.core.egress import Allow
from horae.ports import ChangeStore
from horae.vault import Vault

__all__ = [
    "MOST_REPLAYS",
    "TAKEN",
    "BackfillRequest",
    "Backfilled",
    "Caller",
    "Commands",
    "RunRequest",
    "check_payload",
    "undone",
]


class Commands:
    """`wake` tells the movers of this process that there is something new, `rules_changed` that a queue or a tenant has
    other limits; they would find it anyway. `allow` are the address ranges besides public ones that a job may name.
    """

    def __init__(
        self,
        store: ChangeStore,
        vault: Vault,
        new_id: Callable[[], str],
        wake: Callable[[], None],
        allow: Allow = (),
        random: Callable[[int], bytes] = token_bytes,
        rules_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.allow = allow
        self.jobs = JobCommands(store, new_id, wake, allow)
        self.runs = RunCommands(store, new_id, wake)
        self.letters = LetterCommands(store, wake)
        self.calendars = CalendarCommands(store, wake)
        self.secrets = SecretCommands(store, vault)
        self.webhooks = WebhookCommands(store, vault, new_id, wake, random)
        self.keys = KeyCommands(store, vault, new_id, random)
        self.tenants = TenantCommands(store, rules_changed)
        self.fleet = FleetCommands(store, rules_changed)
