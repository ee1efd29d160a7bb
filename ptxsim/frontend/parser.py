"""PTX parser: modules, headers, directives (PTX ISA, chapters 4 to 7), bodies by body.py."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path

from .body import Body
from .garbage import without_collection
from .scanner import Scanner
from .syntax import WIDTHS, Kernel, Param, Variable

_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)(?:\s+\.ptr(?:\s+\.\w+)?(?:\s+\.align\s+\d+)?)?\s+"
    r"(?P<name>[\w$%]+)\s*(?:\[(?P<count>\d+)\])?"
)
_LINKAGE = r"(?:\.(?:visible|weak|extern)\s+)*"
_HEADER = re.compile(r"\.(version|target|address_size)\s+([^\n]+)")
_ENTRY = re.compile(_LINKAGE + r"\.entry\s+")
_FUNCTION = re.compile(_LINKAGE + r"\.func\b")
_NAME_AND_PARAMETERS = re.compile(r"([\w$]+)\s*(\((.*?)\))?", re.S)
_DIRECTIVE = re.compile(r"\.(\w+)\s*([\d, ]*)")
_VERSION = re.compile(r"(\d+)\.(\d+)$")
NEWEST = (9, 4)  # the PTX ISA that ptxsim was last compared with
_TARGET = re.compile(r"sm_(\d+)([af]?)$")
TARGETS = (90, 100, 101, 103, 107, 110, 120, 121)  # what is simulated
OLDER = range(50, 90)  # code for these also runs on later GPUs
_DEBUG_SECTIONS = (".section", ".nv_intermediate_source_section")  # cuTile's holds its source text


@dataclass(slots=True)
class Module:
    """A parsed PTX module."""

    version: str
    target: str
    kernels: dict[str, Kernel]
    variables: dict[str, Variable]
    path: str = "<text>"

    @classmethod
    def from_file(cls, path: str | Path) -> Module:
        """Parse a PTX file. Raises PtxError naming the line that cannot be read."""
        return cls.from_text(Path(path).read_text(), str(path))

    @classmethod
    @without_collection
    def from_text(cls, text: str, path: str = "<text>") -> Module:
        module = cls("", "", {}, {}, path)
        scanner = Scanner(text, path)
        try:
            while scanner.skip_space() and _read_item(scanner, module):
                pass
        except (ArithmeticError, LookupError, RecursionError, ValueError) as error:  # a number or type that is none
            raise scanner.fail(f"cannot read the PTX before this line ({error})") from error
        return module


def _read_item(scanner: Scanner, module: Module) -> bool:
    """Parse one directive, kernel or variable; return False when nothing relevant follows."""
    rest = scanner.ahead(400)
    if m := _HEADER.match(rest):
        if m[1] == "version":
            module.version = _checked_version(scanner, m[2].strip())
        elif m[1] == "target":
            module.target = _checked_target(scanner, m[2].strip())
        scanner.advance(m.end())
    elif rest.startswith(".file"):
        scanner.rest_of_line()
    elif rest.startswith(_DEBUG_SECTIONS):
        if ".entry" not in scanner.text[scanner.pos :]:
            return False
        scanner.advance(scanner.text.index("}", scanner.pos) + 1 - scanner.pos)
    elif m := _ENTRY.match(rest):
        scanner.advance(m.end())
        kernel = _read_kernel(scanner)
        module.kernels[kernel.name] = kernel
    elif _FUNCTION.match(rest):
        _pass_prototype(scanner)
    elif rest.startswith((".alias", ".pragma")):
        scanner.statement()
    else:
        variable = scanner.variable(scanner.statement())
        module.variables[variable.name] = variable
    return True


def _checked_version(scanner: Scanner, version: str) -> str:
    """Return the version; warn if it is newer than the newest one compared with ptxsim."""
    m = _VERSION.match(version)
    if m is None:
        raise scanner.fail(f"«.version {version[:40]}» is not a PTX ISA version")
    if (int(m[1]), int(m[2])) > NEWEST:
        newest = ".".join(map(str, NEWEST))
        warnings.warn(f"{scanner.path}:{scanner.line}: .version {version} is newer than {newest}", stacklevel=4)
    return version


def _checked_target(scanner: Scanner, target: str) -> str:
    """Return the target; warn for one before sm_90, raise PtxError for an unknown one."""
    name = target.split(",")[0].strip()
    m = _TARGET.match(name)
    known = ", ".join(f"sm_{x}" for x in TARGETS)
    number = int(m[1]) if m else 0
    if m is None or (number not in TARGETS and (m[2] or number not in OLDER)):
        raise scanner.fail(f"the target {name[:40]} is not simulated; simulated are {known}")
    if number in OLDER:
        why = f"the target {name} is simulated as a later GPU runs its code; simulated are {known}"
        warnings.warn(f"{scanner.path}:{scanner.line}: {why}", stacklevel=4)
    return target


def _pass_prototype(scanner: Scanner) -> None:
    """Skip a function prototype; a function body is an error, since calls are not simulated."""
    semicolon, brace = (scanner.text.find(c, scanner.pos) for c in ";{")
    if 0 <= brace < semicolon:
        raise scanner.fail("device functions with a body are not simulated")
    scanner.statement()


def _read_kernel(scanner: Scanner) -> Kernel:
    m = _NAME_AND_PARAMETERS.match(scanner.text, scanner.pos)
    if m is None:
        raise scanner.fail("an .entry without a name")
    scanner.kernel = m[1]
    kernel = Kernel(m[1], _parameters(m[3] or ""), {}, line=scanner.line)
    scanner.advance(m.end() - scanner.pos)
    brace = scanner.text.find("{", scanner.pos)
    if brace < 0:
        raise scanner.fail("the text ends before the kernel's opening brace")
    for d in _DIRECTIVE.finditer(scanner.text[scanner.pos : brace]):
        kernel.directives[d[1]] = tuple(int(v) for v in d[2].split(",") if v.strip())
    scanner.advance(brace - scanner.pos)
    Body(scanner, kernel).read()
    scanner.kernel = "module"
    return kernel


def _parameters(text: str) -> list[Param]:
    """Lay out parameters in order, each at its alignment."""
    out, offset = [], 0
    for p in _PARAM.finditer(text):
        item = WIDTHS[p["type"]] // 8
        align, size = int(p["align"] or item), item * int(p["count"] or 1)
        offset = -(-offset // align) * align
        out.append(Param(p["name"], offset, size))
        offset += size
    return out
