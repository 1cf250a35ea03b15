"""What a command shows: tables for people, tabs for pipes, JSON, YAML, CSV for programs; remarks on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TextIO, TypeVar

import click

FORMS = ("table", "wide", "tsv", "csv", "json", "jsonl", "yaml", "name")
T = TypeVar("T")
# A column of words is at least this wide, if its words are; between two columns are three.
FOLDED, BETWEEN = 18, 3
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

Column = tuple[str, str | Callable[[Any], Any]]
"""A heading, and the field or how to find it. Fields that end in `_ms` are lengths."""

STYLES = {
    "SUCCEEDED": "green", "active": "green", "delivered": "green", "SCHEDULED": "green", "created": "green",
    "FAILED": "red", "dead": "red", "revoked": "red", "failed": "red", "UNKNOWN": "red",
    "RUNNING": "blue", "QUEUED": "yellow", "RETRYING": "yellow", "PAUSED": "yellow", "draining": "yellow",
    "updated": "yellow", "paused": "yellow", "expired": "yellow", "PENDING": "dim", "SKIPPED": "magenta",
    "CANCELLED": "dim", "COMPLETED": "dim", "unchanged": "dim",
}  # fmt: skip
SIGNS = {
    "SUCCEEDED": "✓", "FAILED": "✗", "RUNNING": "●", "QUEUED": "≡", "RETRYING": "↻", "PENDING": "◷",
    "CANCELLED": "⊘", "SKIPPED": "»", "UNKNOWN": "?", "PAUSED": "‖", "SCHEDULED": "◷", "COMPLETED": "✓",
}  # fmt: skip


class Out:
    def __init__(
        self, form: str | None, *, is_quiet: bool, has_header: bool = True, fields: Sequence[str] = ()
    ) -> None:
        self.is_terminal = is_terminal(sys.stdout)
        self.is_wide = form == "wide"
        self.form = (
            "table" if self.is_wide else form or ("name" if is_quiet else "table" if self.is_terminal else "tsv")
        )
        self.is_quiet = is_quiet
        self._has_header = has_header
        self._fields = fields

    @property
    def is_for_people(self) -> bool:
        return self.form in ("table", "tsv") and not self._fields

    @property
    def has_fields(self) -> bool:
        """Somebody chose the fields."""
        return bool(self._fields)

    def rows(self, items: Iterable[Any], columns: Sequence[Column], name: str, empty: str = "") -> None:
        """A list of things; `name` is the field that identifies each."""
        if self._fields:
            items, columns = (chosen(item, self._fields) for item in items), [(each, each) for each in self._fields]
        if self.form in ("tsv", "csv"):
            self._lines(items, columns)
        elif self.form == "name":
            for item in items:
                click.echo(str(item[name]))
        elif self.form == "jsonl":
            for item in items:
                click.echo(json.dumps(item, ensure_ascii=False))
        elif self.form == "table":
            found = list(items)
            if found or not empty:
                self._table(found, [*columns, *_others(found, columns)] if self.is_wide else columns)
            else:
                self.say(empty)
        else:
            self._document(list(items))

    def one(self, item: Any, name: str, fields: Sequence[Column] | None = None) -> None:
        """A single thing; every field if none is named."""
        if self._fields:
            item, fields = chosen(item, self._fields), None
        if self.form == "csv":
            self._lines([item], fields or [(key, key) for key in item])
        elif self.form == "name":
            click.echo(str(item[name]))
        elif self.form == "table":
            self._card(item, fields or [(key, key) for key in item])
        elif self.form == "tsv":
            for head, field in fields or [(key, key) for key in item]:
                click.echo(f"{head}\t{_plain(_value(item, field))}")
        elif self.form == "jsonl":
            click.echo(json.dumps(item, ensure_ascii=False))
        else:
            self._document(item)

    def done(self, item: Any, name: str, told: str) -> None:
        """The answer to a change: a sentence for people, the thing for programs."""
        if self.form == "table" and not self.is_quiet and not self._fields:
            click.echo(told)
        elif self.form in ("name", "tsv") and not self._fields:
            click.echo(str(item[name]))
        else:
            self.one(item, name)

    def say(self, text: str) -> None:
        """A remark: never part of what is piped on."""
        if not self.is_quiet:
            click.echo(text, err=True)

    def track(self, items: Sequence[T], told: str) -> Iterator[T]:
        """The items one by one, with a bar if somebody is watching and it takes long."""
        if self.is_quiet or not is_terminal(sys.stderr) or len(items) < 10:
            yield from items
            return
        from rich.console import Console
        from rich.progress import track

        yield from track(items, told, console=Console(stderr=True), transient=True)

    def _document(self, item: Any) -> None:
        if self.form == "yaml":
            click.echo(as_yaml(item), nl=False)
        else:
            click.echo(json.dumps(item, indent=2, ensure_ascii=False))

    def _lines(self, items: Iterable[Any], columns: Sequence[Column]) -> None:
        line = _comma_line if self.form == "csv" else "\t".join
        lines = iter(items)
        # Before anything is printed: whether the server answers at all.
        first = list(islice(lines, 1))
        if self._has_header:
            click.echo(line([head.upper().replace(" ", "_") for head, _ in columns]))
        for item in chain(first, lines):
            cells = [_value(item, field) for _, field in columns]
            click.echo(line([_text(cell) if self.form == "csv" else _plain(cell) for cell in cells]))

    def _table(self, items: list[Any], columns: Sequence[Column]) -> None:
        from rich import box
        from rich.table import Table

        screen = console(width=10_000 if self.is_wide else None)
        made = [_laid_out(items, head, field) for head, field in columns]
        shown = made if self.is_wide else _that_fit(made, screen.width)
        table = Table(box=box.SIMPLE_HEAD, show_header=self._has_header, show_edge=False, header_style="bold")
        for column in shown:
            table.add_column(column.head, no_wrap=column.is_whole, overflow="fold")
            table.columns[-1].justify = "right" if column.is_number else "left"
        for cells in zip(*(column.cells for column in shown), strict=True):
            table.add_row(*cells)
        screen.print(table, crop=not self.is_wide)
        if len(shown) < len(made):
            left = ", ".join(head for head, _ in columns[len(shown) :])
            self.say(f"No room for {left}; -o wide shows all.")

    def _card(self, item: Any, fields: Sequence[Column]) -> None:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for head, field in fields:
            table.add_row(head, pretty(_value(item, field), field))
        console().print(table)


class _Laid(NamedTuple):
    """A column of a table: its cells as they are shown, and how much room they need."""

    head: str
    cells: list[Any]
    is_number: bool
    is_whole: bool

    @property
    def least(self) -> int:
        """What must not be broken needs its full width; words may fold, but not into single letters."""
        widest = max((cell.cell_len for cell in self.cells), default=0)
        return max(len(self.head), widest if self.is_whole else min(widest, FOLDED))


def _laid_out(items: list[Any], head: str, field: str | Callable[[Any], Any]) -> _Laid:
    values = [_value(item, field) for item in items]
    is_number = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    is_time = any(is_instant(value) for value in values)
    is_whole = is_time or any(value in SIGNS for value in values if isinstance(value, str))
    is_whole = is_whole or (isinstance(field, str) and field.endswith("_id"))
    told = f"{head.upper()} ({zone_name()})" if is_time else head.upper()
    return _Laid(told, [pretty(value, field, is_short=True) for value in values], is_number, is_whole)


def _that_fit(columns: list[_Laid], width: int) -> list[_Laid]:
    """The first ones, which matter most; two at least."""
    count = len(columns)
    while count > 2 and sum(column.least + BETWEEN for column in columns[:count]) > width:
        count -= 1
    return columns[:count]


def console(width: int | None = None) -> Any:
    """Standard output for tables. NO_COLOR, FORCE_COLOR and TERM=dumb are heeded; a pipe gets no colour."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)


def chosen(item: Any, fields: Sequence[str]) -> dict[str, Any]:
    """These fields of it; `retry.delay` is one inside another. A field that no such thing has is a mistake."""
    made = {}
    for name in fields:
        value = item
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                raise _no_field(name, item)
            value = value[part]
        made[name] = value
    return made


def _no_field(name: str, item: Any) -> Exception:
    from difflib import get_close_matches

    from horae.cli.failure import USAGE, Failure

    known = list(item) if isinstance(item, dict) else []
    near = get_close_matches(name, known, 1)
    hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
    return Failure(USAGE, f'--fields: there is no field "{name}".', code="fields", hint=hint)


def _others(items: list[Any], columns: Sequence[Column]) -> list[Column]:
    """Plain fields that the table leaves out and that say something."""
    shown = {field if isinstance(field, str) else head.replace(" ", "_") for head, field in columns}
    names = dict.fromkeys(name for item in items for name in item)
    return [
        (name.replace("_", " "), name)
        for name in names
        if name not in shown and any(not isinstance(item.get(name), dict | list | None) for item in items)
    ]


def is_terminal(stream: TextIO | None) -> bool:
    """A stream that the shell closed is None."""
    return stream is not None and stream.isatty()


def visible(text: str) -> str:
    """What others wrote must not steer the terminal: control characters are shown, not sent."""
    return text.translate(_CONTROLS)


def is_instant(value: Any) -> bool:
    return isinstance(value, str) and _INSTANT.fullmatch(value) is not None


def zone_name() -> str:
    from horae.cli.times import now

    return f"{now().astimezone():%Z}"


def pretty(value: Any, field: Any = "", *, is_short: bool = False) -> Any:
    """As a person wants to read it; `is_short` where the zone stands in the heading."""
    from rich.text import Text

    if is_instant(value):
        from horae.cli.times import short_time, shown_time

        return Text(short_time(value) if is_short else shown_time(value))
    if isinstance(field, str) and field.endswith("_ms") and isinstance(value, int):
        return Text(shown_length(value / 1000))
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if value is None or value in ("", [], {}):
        return Text("-", style="dim")
    if isinstance(value, dict) and not any(isinstance(each, dict | list) for each in value.values()):
        return Text(visible(", ".join(f"{key} {_plain(each)}" for key, each in value.items())))
    if isinstance(value, dict | list):
        return Text(visible(_plain(value)))
    text = visible(str(value))
    return Text(f"{SIGNS[text]} {text.lower()}" if text in SIGNS else text, style=STYLES.get(text, ""))


def shown_length(seconds: float) -> str:
    """`4 m 10 s`: at most two units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = int(seconds)
    for size, unit, small, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def as_yaml(item: Any) -> str:
    import yaml

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    # A class of its own, so that texts of several lines stand as they are only here.
    dumper: Any = type("Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
    dumper.add_representer(str, text)
    dumped: str = yaml.dump(item, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)
    return dumped


def _value(item: Any, field: str | Callable[[Any], Any]) -> Any:
    return field(item) if callable(field) else item.get(field)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _comma_line(cells: Sequence[str]) -> str:
    """One line of CSV. A cell that a spreadsheet would take for a formula is told as text."""
    import csv
    import io

    line = io.StringIO()
    safe = [f"'{cell}" if cell[:1] in ("=", "+", "@", "\t") else cell for cell in cells]
    csv.writer(line, lineterminator="").writerow(safe)
    return line.getvalue()


def _plain(value: Any) -> str:
    """One cell of a line: no tab and no line end inside."""
    text = _text(value)
    return (
        text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") if "\t" in text or "\n" in text else text
    )
