"""YAML as JSON has it, with the line of every place: `on` and `yes` are texts, a time is a text, a key comes once."""

from __future__ import annotations

import re
from typing import Any

import yaml

from horae.core.checks import escape

MOST_NODES = 2_000_000
DEEPEST = 100
MERGE = "tag:yaml.org,2002:merge"
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
    if isinstance(value, dict) and "jobs" in value:
        return [(each, lines, f"/jobs/{at}") for at, each in enumerate(_listed(value, lines))]
    if isinstance(value, list):
        return [(each, lines, f"/{at}") for at, each in enumerate(value)]
    return [(value, lines, "")]


def _listed(value: dict[str, Any], lines: dict[str, int]) -> list[Any]:
    """The list behind `jobs:`. Beside it may stand what begins with `x-`: a place for anchors."""
    for key in value:
        if key != "jobs" and not key.startswith("x-"):
            line = lines[f"/{escape(key)}"]
            raise ValueError(line, f'"{key}" beside "jobs" means nothing; what is only for anchors begins with x-.')
    if not isinstance(value["jobs"], list | None):
        raise ValueError(lines["/jobs"], '"jobs" must be a list of jobs.')  # noqa: TRY004 - about the text that was read
    return value["jobs"] or []


class _Reader:
    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self._seen = 0

    def value(self, node: Any, pointer: str) -> Any:
        self._count(node)
        self.lines.setdefault(pointer, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, f"{pointer}/{at}") for at, each in enumerate(node.value)]
        made = {}
        for key, (line, each) in self._pairs(node).items():
            at = f"{pointer}/{escape(key)}"
            self.lines[at] = line
            made[key] = self.value(each, at)
        return made

    def _count(self, node: Any, nodes: int = 1) -> None:
        self._seen += nodes
        if self._seen > MOST_NODES:
            raise ValueError(node.start_mark.line + 1, "Too much: an alias inside an alias?")

    def _pairs(self, node: Any) -> dict[str, tuple[int, Any]]:
        """Keys with their lines and values. Behind `<<` are those of other mappings, for keys that are not written."""
        pairs: dict[str, tuple[int, Any]] = {}
        others: list[Any] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ValueError(line, "A key must be a text.")  # noqa: TRY004 - about the text that was read
            key = str(key_node.value)
            if key_node.tag == MERGE:
                others += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            elif key in pairs:
                raise ValueError(line, f'"{key}" comes twice.')
            else:
                pairs[key] = line, value_node
        for each in others:
            if not isinstance(each, yaml.MappingNode):
                line = each.start_mark.line + 1
                raise ValueError(line, "<< takes a mapping, or a list of them.")  # noqa: TRY004 - as above
            self._count(each, len(each.value) + 1)
            pairs = self._pairs(each) | pairs
        return pairs


def _scalar(node: Any) -> Any:
    text = str(node.value)
    if node.style in ("'", '"', "|", ">") or node.tag == "tag:yaml.org,2002:str":
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
