"""Check texts and names against the words of text_style.toml, and Markdown sentences against 40 words.

python tests/text_style.py [FILE ...]   one line a finding; exit status 1 when a package exceeds its limit
python tests/text_style.py --ratchet    lower the limits in text_style.toml to today's counts
python tests/text_style.py --metrics    print word counts, sentence lengths and numbers per 100 words of Markdown
"""

import argparse
import ast
import fnmatch
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Path(__file__).with_suffix(".toml")
SETTINGS = tomllib.loads(CONFIG.read_text())
PROSE = {word: re.compile(rf"(?<![\w-])(?:{word})(?![\w-])", re.IGNORECASE) for word in SETTINGS["prose"]}
SENTENCE_LIMIT, DOCSTRING_LIMIT = 40, 15
_YAML_HEAD = r"\A---\n.*?\n---\n"
TEXT = (".md", ".j2", ".rst", ".js")
DATA = ("config/*.yaml", "profiles/*.yaml", "kernels/*.yaml", "docs/knowledge/*.yaml")
OMITTED = ("recorded/*", "tests/text_style.*", "tests/fixtures/*", "*/measured/*")


@dataclass(frozen=True)
class Finding:
    """A banned word or a long sentence at a line of a file."""

    path: str
    line: int
    word: str
    advice: str
    kind: str = "words"  # or "lengths"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word} → {self.advice}"


@dataclass(frozen=True)
class Sentence:
    """A sentence of Markdown prose, with the line of its first word."""

    line: int
    words: tuple[str, ...]


def sentences(markdown: str) -> Iterator[Sentence]:
    """Yield the sentences of Markdown prose, without code, tables, headings, comments and YAML heads."""
    text = re.sub(rf"{_YAML_HEAD}|<!--.*?-->", lambda match: "\n" * match[0].count("\n"), markdown, flags=re.DOTALL)
    paragraph: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        fence = stripped.startswith(("```", "~~~"))
        fenced ^= fence
        broken = fenced or fence or not stripped or stripped.startswith(("|", "#", "---", "$$", "<"))
        if broken or re.match(r"([-*+]|\d+\.)\s", stripped):
            yield from _split(paragraph)
            paragraph = []
        if not broken:
            words = re.sub(r"^([-*+]|\d+\.|>)\s+", "", stripped)
            words = re.sub(r"`[^`]*`", "Code", words)  # a capital: it may begin a sentence
            words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", words)
            paragraph += [(number, word) for word in words.split()]


def _split(paragraph: Sequence[tuple[int, str]]) -> Iterator[Sentence]:
    sentence: list[tuple[int, str]] = []
    for index, (number, word) in enumerate(paragraph):
        sentence.append((number, word))
        ends = re.search(r"[.!?][)\"'*_»”]*$", word) and word.lower() not in ("e.g.", "i.e.", "vs.", "fig.")
        last = index + 1 == len(paragraph)
        if last or (ends and not paragraph[index + 1][1][0].islower()):
            yield Sentence(sentence[0][0], tuple(word for _, word in sentence))
            sentence = []


def prose(path: str, text: str, first: int = 1) -> Iterator[Finding]:
    """Yield the banned words of a text whose first line has the number `first`."""
    flat = text.replace("\n", " ")
    for word, pattern in PROSE.items():
        for match in pattern.finditer(flat):
            yield Finding(path, first + text.count("\n", 0, match.start()), match[0], SETTINGS["prose"][word])


def names(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and name of whatever a module binds, once a name."""
    seen = set()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound = "" if name.startswith("test_") else name  # a test's name is a sentence
            case ast.arg(arg=bound) | ast.Name(id=bound, ctx=ast.Store()) | ast.Attribute(attr=bound, ctx=ast.Store()):
                pass
            case ast.alias(asname=str(bound)) | ast.ExceptHandler(name=str(bound)) | ast.MatchAs(name=str(bound)):
                pass
            case _:
                continue
        if bound and bound not in seen:
            seen.add(bound)
            yield node.lineno, bound


def split_name(name: str) -> list[str]:
    """Split a name at underscores and capitals."""
    return re.findall(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*", name)


def identifiers(path: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Yield the names with a banned word that a module binds, and its own name."""
    stem = Path(path).stem
    for line, name in [*names(nodes), *([(1, stem)] if not stem.startswith("test_") else [])]:
        for part in split_name(name):
            if part.lower() in SETTINGS["identifier"]:
                yield Finding(path, line, name, SETTINGS["identifier"][part.lower()])


def docstrings(path: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Yield the docstrings whose first line is longer than 15 words."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and len(text.splitlines()[0].split()) > DOCSTRING_LIMIT:
                name = getattr(node, "name", "module")
                yield Finding(
                    path, node.body[0].lineno, f"docstring of {name}", f"at most {DOCSTRING_LIMIT} words", "lengths"
                )


def literals(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and text of the string literals of at least three words.

    An f-string's fields read as `_`.
    """
    inside = set()
    for node in nodes:
        match node:
            case ast.JoinedStr(values=values):
                inside |= {id(value) for value in values}
                text = "".join(value.value if isinstance(value, ast.Constant) else "_" for value in values)
            case ast.Constant(value=str(text)) if id(node) not in inside:
                pass
            case _:
                continue
        if len(text.split()) > 2:
            yield node.lineno, text


def python(path: str, text: str) -> Iterator[Finding]:
    """Yield the findings in names, docstrings, comments and messages.

    Of a Snakemake file in comments only.
    """
    if path.endswith(".py"):
        nodes = list(ast.walk(ast.parse(text)))
        yield from identifiers(path, nodes)
        yield from docstrings(path, nodes)
        for line, literal in literals(nodes):
            yield from prose(path, literal, line)
    if any(prose(path, "\n".join(re.findall("#.*", text)))):  # the tokenizer takes a hundred times as long
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from prose(path, token.string, token.start[0])


def findings(path: str) -> list[Finding]:
    """Return the findings in one file, given relative to the repository."""
    text = (ROOT / path).read_text()
    if path.endswith((".py", ".smk")) or Path(path).name == "Snakefile":
        rows = list(python(path, text))
    else:
        rows = list(prose(path, re.sub(r"`[^`\n]*`", lambda match: " " * len(match[0]), text)))
    if path.endswith(".md"):
        for sentence in sentences(text):
            if len(sentence.words) > SENTENCE_LIMIT:
                start = " ".join(sentence.words[:4])
                advice = f"{len(sentence.words)} words, at most {SENTENCE_LIMIT}"
                rows.append(Finding(path, sentence.line, f"sentence «{start} …»", advice, "lengths"))
    return [row for row in rows if not allowed(row)]


def allowed(finding: Finding) -> bool:
    """Return whether text_style.toml allows a finding."""
    parts = {finding.word.lower(), *map(str.lower, split_name(finding.word))}
    return any(
        any(fnmatch.fnmatch(finding.path, pattern) for pattern in rule["paths"]) and parts & {*rule["words"]}
        for rule in SETTINGS["allow"]
    )


def tracked() -> list[str]:
    """Return the tracked files that hold texts or code, relative to the repository."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in listed if (ROOT / name).is_file() and covered(name)]


def covered(path: str) -> bool:
    """Return whether a file is one that this check reads."""
    if any(fnmatch.fnmatch(path, pattern) for pattern in OMITTED):
        return False
    code = path.endswith((".py", ".smk")) or path == "Snakefile"
    return code or path.endswith(TEXT) or any(fnmatch.fnmatch(path, pattern) for pattern in DATA)


def package(path: str) -> str:
    """Return the package that a file's findings count for."""
    parts = Path(path).parts[:-1]
    depth = 4 if parts[:3] == ("workflow", "scripts", "cutesnake") else 2 if parts[:1] == ("workflow",) else 1
    return "/".join(parts[:depth]) or "top"


def exceeded(rows: Sequence[Finding]) -> list[str]:
    """Return a line for each package with more findings than its limit."""
    limits = SETTINGS["limits"]
    return [
        f"{name}: {count} findings ({kind}), at most {limits[kind].get(name, 0)}"
        for (kind, name), count in sorted(tally(rows).items())
        if count > limits[kind].get(name, 0)
    ]


def tally(rows: Sequence[Finding]) -> Counter[tuple[str, str]]:
    """Count findings by kind and package."""
    return Counter((row.kind, package(row.path)) for row in rows)


def ratchet(rows: Sequence[Finding]) -> None:
    """Lower the limits to today's counts.

    A count above its limit leaves the limit, a missing limit is added.
    """
    text = CONFIG.read_text().partition("[limits.")[0].rstrip() + "\n"
    for kind in ("words", "lengths"):
        limits = SETTINGS["limits"].get(kind, {})
        counts = {name: count for (each, name), count in sorted(tally(rows).items()) if each == kind}
        text += f"\n[limits.{kind}]\n"
        text += "".join(f'"{name}" = {min(count, limits.get(name, count))}\n' for name, count in counts.items())
    CONFIG.write_text(text)


def metrics() -> dict[str, float | str]:
    """Return counts over the tracked Markdown: words, long sentences, numbers and the longest document.

    Words are separated by blanks, in code and tables too, so a table's bars count. A number is a run of digits anywhere
    in prose: also in names (H200, sm_100a), inline code and addresses. The second count leaves these three out. Tables
    (generated or not), headings, fenced code and YAML heads are no prose; entries repeat the claims of their heads.
    """
    texts = {name: (ROOT / name).read_text() for name in tracked() if name.endswith(".md")}
    every = [sentence for text in texts.values() for sentence in sentences(text)]
    read = [name for name in texts if name == "README.md" or name.startswith("docs/")]
    spoken = "\n".join(line for name in read for line in _prose_lines(texts[name]))
    bare = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", " code ", spoken)
    longest = max(texts, key=lambda name: texts[name].count("\n"))
    counts = Counter(row.kind for name in tracked() for row in findings(name))
    return {
        "words in tracked Markdown": sum(len(text.split()) for text in texts.values()),
        "sentences over 30 words, %": round(100 * sum(len(each.words) > 30 for each in every) / len(every), 1),
        "numbers per 100 words of prose, README and docs": _rate(r"\d[\d.,]*", spoken, spoken),
        "numbers without names, inline code and addresses": _rate(r"(?<![\w.-])\d[\d.,]*(?!\w)", bare, spoken),
        "words in README": len(texts["README.md"].split()),
        "longest document, lines": f"{texts[longest].count(chr(10))} ({longest})",
        "banned words in texts and names": counts["words"],
        "docstrings and sentences that are too long": counts["lengths"],
    }


def _rate(pattern: str, text: str, words: str) -> float:
    """Matches in a text per 100 words of another."""
    return round(100 * len(re.findall(pattern, text)) / len(words.split()), 1)


def _prose_lines(markdown: str) -> list[str]:
    text = re.sub(rf"{_YAML_HEAD}|```.*?```", "", markdown, flags=re.DOTALL)
    return [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#"))]


def main() -> int:
    """Print findings or metrics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files to check (default: all that are tracked)")
    parser.add_argument("--metrics", action="store_true", help="print figures over the Markdown files instead")
    parser.add_argument("--ratchet", action="store_true", help="lower the limits to today's counts")
    arguments = parser.parse_args()
    if arguments.metrics:
        print("\n".join(f"{name}: {value}" for name, value in metrics().items()))
        return 0
    files = [str(Path(name).resolve().relative_to(ROOT)) for name in arguments.files]
    rows = [row for name in files or tracked() for row in findings(name)]
    print("\n".join(map(str, rows)))
    if arguments.ratchet:
        ratchet(rows)
        return 0
    over = exceeded(rows)
    print("\n".join(over), file=sys.stderr)
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
