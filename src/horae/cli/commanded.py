"""What the server tells people to call, in the words of the command line."""

from __future__ import annotations

import json
import re
import shlex
from urllib.parse import unquote

# Method and path as hints have them, `*` for a name: the command, with the name at its end.
COMMANDS = {
    "GET /jobs": "horae job list",
    "GET /runs": "horae run list",
    "GET /workers": "horae worker list",
    "GET /calendars": "horae calendar list",
    "GET /secrets": "horae secret list",
    "GET /webhooks": "horae webhook list",
    "GET /deliveries": "horae webhook deliveries",
    "GET /keys": "horae key list",
    "GET /tenants": "horae tenant list",
    "GET /queues": "horae queue list",
    "GET /dead-letters": "horae dead list",
    "POST /jobs": "horae job create NAME",
    "POST /jobs:batch": "horae apply FILE",
    "PUT /jobs/*": "horae job edit *",
    "PATCH /jobs/*": "horae job edit *",
    "POST /jobs/*/pause": "horae pause *",
    "POST /jobs/*/resume": "horae resume *",
    "POST /jobs/*/run": "horae run start *",
    "GET /runs/*": "horae run show *",
    "POST /runs/*/retry": "horae run retry *",
    "POST /runs/*/cancel": "horae run cancel *",
    "POST /keys": "horae key create NAME --role ROLE",
    "POST /keys/*/rotate": "horae key rotate *",
    "POST /webhooks": "horae webhook create NAME --to URL --event EVENT",
    "POST /webhooks/*/rotate": "horae webhook rotate *",
    "PUT /calendars/*": "horae calendar set *",
    "PUT /secrets/*": "horae secret set *",
    "PATCH /tenants/*": "horae tenant edit *",
}
FLAGS = {"until": "--until", "reason": "--reason", "exclude": "--exclude"}

# A path ends before the full stop of its sentence.
_CALL = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/[^\s{,]*[^\s{,.;])( \{.*\})?")


def in_commands(text: str) -> str:
    """The same text with every call that has a command as that command."""
    return _CALL.sub(_command, text)


def _command(match: re.Match[str]) -> str:
    method, path, body = match.groups()
    kind, *rest = path.removeprefix("/").split("/")
    word = f"{method} /{'/'.join([kind, *('*' if number == 0 else part for number, part in enumerate(rest))])}"
    if word not in COMMANDS:
        return match[0]
    command = COMMANDS[word].replace("*", shlex.quote(unquote(rest[0])) if rest else "")
    return " ".join([command, *_flags(body or "")])


def _flags(body: str) -> list[str]:
    try:
        fields = json.loads(body or "{}")
    except ValueError:
        return []
    given = [(name, each) for name, value in fields.items() for each in (value if isinstance(value, list) else [value])]
    return [f"{FLAGS[name]} {shlex.quote(str(value))}" for name, value in given if name in FLAGS]
