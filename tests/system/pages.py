"""The README and the docs as tests read them: blocks, tables, headings."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
MARK = "# tested"


class Block(NamedTuple):
    """A fenced block; `shows` is the output that a tested one should have."""

    language: str
    text: str
    shows: str

    @property
    def is_tested(self) -> bool:
        return self.text.startswith(MARK)


FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = list(FENCE.finditer(text))
    made = []
    for match, following in zip_longest(found, found[1:]):
        is_output = following is not None and following[1] in ("json", "text")
        if following is None or not is_output or HEADING.search(text, match.end(), following.start()):
            made.append(Block(match[1], match[2], ""))
        else:
            made.append(Block(match[1], match[2], following[2]))
    return made


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def section(page: Path, heading: str) -> str:
    """What stands between a heading and the next one, of whatever level."""
    rest = page.read_text().split(f"\n{heading}\n")[1]
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row but the headings."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {
        index for index, row in enumerate(cells) if index + 1 < len(cells) and set("".join(cells[index + 1])) == {"-"}
    }
    return [row for index, row in enumerate(cells) if index not in heads and set("".join(row)) != {"-"}]


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def titles(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]
