"""YAML as JSON has it, with the line of every place: `on` and `yes` are texts, a time is a text, a key comes once."""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_NODES = 2_000_000
DEEPEST = 100
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"null": None, "Null": None, "NULL": None, "~": None, "": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

Read = tuple[Any, dict[str, int], str]
"""A job, the lines of all places of its file's document, and where in it the job is."""


def read_documents(text: str) -> list[Read]:
    """Jobs: one a document, or a list of them, or `jobs:` with a list. Raises ValueError(line, words)."""
    found: list[Read] = []
    loader = LOADER(text)
    try:
        _check_depth(text)
        while loader.check_node():
            reader = _Reader()
            node = loader.get_node()
            value = reader.value(node, "")
            found += _jobs(value, reader.lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(mark.line + 1 if mark else 1, f"Not YAML: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise ValueError(1, f"Not YAML: {str(error).partition(chr(10))[0]}.") from None
    except RecursionError:
        raise ValueError(1, "Something is inside itself.") from None
    finally:
        loader.dispose()
    return found


def _check_depth(text: str) -> None:
    """Before nodes are made: the library makes them by recursion, and too much of it ends the process."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(event.start_mark.line + 1, "Nested too deeply.")


def _jobs(value: Any, lines: dict[str, int]) -> list[Read]:
    if value is None:
        return []
    if isinstance(value, dict) and set(value) == {"jobs"} and isinstance(value["jobs"], list):
        return [(each, lines, f"/jobs/{at}") for at, each in enumerate(value["jobs"])]
    if isinstance(value, list):
        return [(each, lines, f"/{at}") for at, each in enumerate(value)]
    return [(value, lines, "")]


class _Reader:
    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self._seen = 0

    def value(self, node: Any, pointer: str) -> Any:
        self._seen += 1
        line = node.start_mark.line + 1
        if self._seen > MOST_NODES:
            raise ValueError(line, "Too much: an alias inside an alias?")
        self.lines.setdefault(pointer, line)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, f"{pointer}/{at}") for at, each in enumerate(node.value)]
        return self._mapping(node, pointer)

    def _mapping(self, node: Any, pointer: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ValueError(line, "A key must be a text.")  # noqa: TRY004 - about the text that was read
            key = str(key_node.value)
            if key in made:
                raise ValueError(line, f'"{key}" comes twice.')
            at = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            self.lines[at] = line
            made[key] = self.value(value_node, at)
        return made


def _scalar(node: Any) -> Any:
    text = str(node.value)
    if node.style in ("'", '"', "|", ">") or node.tag == "tag:yaml.org,2002:str":
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
