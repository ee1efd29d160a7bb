"""Fill the generated blocks of README.md and docs/ from recorded data.

    python -m cutesnake.report.document_blocks           # rewrite the blocks that are not current
    python -m cutesnake.report.document_blocks --check   # name them, and exit with 1 if there are any
    python -m cutesnake.report.document_blocks --plot    # draw docs/speedup.png, too

A block lies between `<!-- generated: NAME WORDS -->` and `<!-- end -->`. NAME is a key of
`document_tables.TABLES`; the words are passed to its function.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cutesnake.analysis.compare.recorded import operators, recorded_speedups
from cutesnake.model import record
from cutesnake.model.paths import ROOT
from cutesnake.report.document_tables import TABLES, TableError, main_first

DOCUMENTS = ("README.md", "docs/**/*.md", "benchmarks/*/README.md", "kernels/*/README.md", "recorded/README.md")
BLOCK = re.compile(
    r"^<!-- generated: (?P<call>[^\n]*?) -->\n(?P<body>.*?)(?P<end>^<!-- end -->$|(?=^<!-- generated:)|\Z)", re.M | re.S
)
PLOT = ROOT / "docs/speedup.png"
COMMAND = "python -m cutesnake.report.document_blocks"

Table = Callable[..., str]


class Filled(NamedTuple):
    """A document with current blocks, and a line for each block that was not."""

    text: str
    problems: list[str]


class BlockError(ValueError):
    """One-line error: a block that cannot be filled, with place and reason."""


def filled(text: str, name: str, tables: Mapping[str, Table] = TABLES) -> Filled:
    """Return a document with filled blocks; raise BlockError for one that cannot be filled."""
    problems = []

    def fill(match: re.Match[str]) -> str:
        call = match["call"]
        where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}: generated block {call!r}"
        if not match["end"]:
            raise BlockError(f"{where}: `<!-- end -->` is missing")
        try:
            body = _made(call, tables)
        except TableError as error:
            raise BlockError(f"{where}: {error}") from None
        if body != match["body"]:
            problems.append(f"{where} differs from the records; run `{COMMAND}`")
        return f"<!-- generated: {call} -->\n{body}<!-- end -->"

    return Filled(BLOCK.sub(fill, text), problems)


def _made(call: str, tables: Mapping[str, Table]) -> str:
    name, *arguments = call.split() or [""]
    if name not in tables:
        raise TableError(f"unknown name; known: {', '.join(sorted(tables))}")
    try:
        return f"\n{tables[name](*arguments)}\n\n"
    except TypeError as error:
        raise TableError(str(error).replace("()", "", 1)) from None


def documents(root: Path = ROOT) -> Iterator[Path]:
    """Yield the Markdown files that may hold generated blocks."""
    for pattern in DOCUMENTS:
        yield from sorted(root.glob(pattern))


def draw(path: Path = PLOT) -> None:
    """Draw the report's overview of the recorded sets as a PNG file."""
    from cutesnake.report.plot.overview import draw_overview  # matplotlib takes a second to import

    figure = draw_overview([recorded_speedups(operator) for operator in main_first(operators())]).figure
    figure.savefig(path, format="png", dpi=80, facecolor="white", metadata={"Software": None})


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Rewrite or check all documents; return 1 if a block is not current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; name blocks that are not current")
    parser.add_argument("--plot", action="store_true", help=f"draw {PLOT.relative_to(ROOT)}, too")
    options = parser.parse_args(arguments)
    problems = []
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        try:
            result = filled(text, path.relative_to(root).as_posix())
        except BlockError as error:
            problems.append(str(error))
            continue
        if options.check:
            problems += result.problems
        elif result.problems:
            record.write_text(path, result.text)
    if options.plot:
        draw()
    print("".join(f"{line}\n" for line in problems), end="", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
