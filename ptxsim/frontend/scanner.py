"""A position in PTX text, with the scanning functions that both parsers use."""

import re

from .syntax import WIDTHS, PtxError, Variable

_SPACE = re.compile(r"\s+")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<space>shared|global|const|local)\s+(?:\.attribute\([^)]*\)\s+)?"
    r"(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?P<name>[\w$%]+)\s*(?P<array>\[(?P<count>\d*)\])?\s*"
    r"(?:=\s*(?P<init>.*))?$",
    re.S,
)


def _without_comments(text: str) -> str:
    """Remove comments, but keep newlines so that line numbers hold."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


class Scanner:
    """PTX text and the read position; `kernel` names the current kernel in messages."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = _without_comments(text), path
        self.files = {int(n): f for n, f in _FILE.findall(self.text)}
        self.pos, self.line, self.kernel = 0, 1, "module"

    def fail(self, what: str) -> PtxError:
        return PtxError(f"{self.path}:{self.line}: in {self.kernel[:60]}: {what}")

    def ahead(self, n: int) -> str:
        """Return the next characters without consuming them."""
        return self.text[self.pos : self.pos + n]

    def skip_space(self) -> bool:
        """Skip whitespace; return whether text follows."""
        if m := _SPACE.match(self.text, self.pos):
            self.advance(m.end() - self.pos)
        return self.pos < len(self.text)

    def advance(self, n: int) -> None:
        self.line += self.text.count("\n", self.pos, self.pos + n)
        self.pos += n

    def rest_of_line(self) -> str:
        """Consume and return the rest of the line."""
        end = self.text.find("\n", self.pos)
        line = self.text[self.pos : end if end >= 0 else len(self.text)]
        self.pos += len(line)
        return line

    def statement(self) -> str:
        """Consume a statement with its semicolon; return it without."""
        end = self.text.find(";", self.pos)
        if end < 0:
            raise self.fail("a statement without its semicolon")
        statement = self.text[self.pos : end].strip()
        self.advance(end + 1 - self.pos)
        return statement

    def variable(self, statement: str) -> Variable:
        """Parse a variable's declaration."""
        m = _VARIABLE.match(statement)
        if not m or m["type"] not in WIDTHS:
            raise self.fail(f"cannot read the declaration «{statement[:80]}»")
        size = WIDTHS[m["type"]] // 8
        count = 1 if m["array"] is None else int(m["count"] or 0)
        init = None
        if m["init"]:
            values = [int(v.strip(), 0) for v in m["init"].strip().strip("{}").split(",")]
            init = b"".join((v % (1 << 8 * size)).to_bytes(size, "little") for v in values).ljust(count * size, b"\0")
        return Variable(m["name"], m["space"], int(m["align"] or size), size * count, init)
