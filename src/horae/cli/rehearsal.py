"""What a dry run would change, as the server tells it after it tried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from horae.cli.output import Column, visible

if TYPE_CHECKING:
    from horae.cli.session import Session

COLUMNS: list[Column] = [
    ("action", "action"), ("target", "target"), ("before", "before"), ("after", "after"),
]  # fmt: skip


def show_rehearsal(session: Session, answers: list[dict[str, Any]], names: Sequence[str] = ()) -> None:
    """One answer as it is; of several, all their changes. `names` are what was given instead of ids, one for each."""
    changes = [change for answer in answers for change in answer["changes"]]
    out = session.out
    if out.form in ("json", "yaml") and len(answers) == 1:
        out.one(answers[0], "dry_run")
    elif out.form == "table":
        for number, answer in enumerate(answers):
            for change in answer["changes"]:
                _tell(change, names[number] if names else "")
    else:
        out.rows(changes, COLUMNS, "target")
    out.say("Nothing was changed." if changes else "This would change nothing.")


def would_change(action: str, target: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    """For what is changed on this machine, in the words of the server."""
    change = {"action": action, "target": target, "before": before, "after": after}
    return {"dry_run": True, "changes": [change]}


def _tell(change: dict[str, Any], name: str) -> None:
    before, after = (change[side] if isinstance(change[side], dict) else {} for side in ("before", "after"))
    name = name or after.get("name") or before.get("name") or change["target"]
    click.secho(visible(f"would be {change['action']}: {name}"), bold=True)
    for field in {**before, **after}:
        was, is_ = before.get(field), after.get(field)
        if field in before and field in after and was != is_:
            click.echo(visible(f"  {field} {_json(was)} → {_json(is_)}"))
        elif not before and is_ not in (None, "", [], {}):
            click.echo(visible(f"  {field} {_json(is_)}"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
