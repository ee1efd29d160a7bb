"""Toolchains: pinned compilers, each in an environment of its own."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutesnake.model.dsls import DSLS
from cutesnake.model.paths import ROOT

MAIN = "main"  # the environment that runs the workflow
FOLDER = ROOT / "envs/toolchains"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)\s*\\?")
HASH = "--hash="
DISASSEMBLER = "nvidia-cuda-nvdisasm"  # reads what compilers of any version made


class ToolchainError(ValueError):
    """A toolchain that cannot be read or installed. One line."""


@dataclass(frozen=True)
class Toolchain:
    """Pinned packages by name; `file` is empty for the main environment."""

    name: str
    file: str = ""
    pins: tuple[tuple[str, str], ...] = ()  # distribution, version
    hashed: bool = False

    def replaces(self, dsl: str) -> bool:
        """Return whether the pins have a compiler of a DSL."""
        return bool({name for name, _ in self.pins} & set(DSLS[dsl].compilers) - {DISASSEMBLER})


def read(entries: Sequence[str]) -> list[Toolchain]:
    """Return the named toolchains; ToolchainError for unusable ones.

    An entry is `main`, a name in envs/toolchains/, or the path of a .txt file.
    """
    result = [_read(entry) for entry in entries]
    names = [one.name for one in result]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ToolchainError(f"toolchains: {twice!r} is listed twice; name each once")
    return result


def _read(entry: str) -> Toolchain:
    if entry == MAIN:
        return Toolchain(MAIN)
    own = entry.endswith(".txt")
    file = Path(entry).expanduser() if own else FOLDER / f"{entry}.txt"
    if not file.is_file():
        known = [MAIN, *sorted(path.stem for path in FOLDER.glob("*.txt"))]
        close = difflib.get_close_matches(entry, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ToolchainError(f"toolchains: no {entry!r}; {hint}allowed: {', '.join(known)}, or the path of a .txt file")
    if not NAME.fullmatch(file.stem) or file.stem == MAIN:
        raise ToolchainError(
            f"toolchains: {entry}: rename the file: only A-Z, a-z, digits, '_', '.', '+' and '-', not {MAIN}"
        )
    text = file.read_text(encoding="utf-8")
    pins = tuple(_pins(text.splitlines(), entry))
    if not pins:
        raise ToolchainError(f"toolchains: {entry}: it pins nothing; write lines like nvidia-cutlass-dsl==4.8.1")
    return Toolchain(file.stem, str(file.resolve()), pins, HASH in text)


def _pins(lines: Iterable[str], where: str) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text or text.startswith(HASH):
            continue
        pin = PIN.match(text)
        if pin is None or ((rest := text[pin.end() :].strip()) and not rest.startswith(HASH)):
            raise ToolchainError(f"toolchains: {where}, line {number}: {text!r} is no pin; write name==version")
        yield re.sub(r"[-_.]+", "-", pin[1]).lower(), pin[2]
