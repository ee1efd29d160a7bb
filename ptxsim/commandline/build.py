"""A compiled kernel's folder: its object, its PTX, its exported function."""

import json
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from ..frontend.parser import Module
from ..frontend.syntax import PtxError
from ..host.linking import exported, nearest
from .elements import Misuse


@dataclass(frozen=True, slots=True)
class Build:
    """An exported object, its PTX, the exported function's name, and the cubin if present."""

    object: Path
    ptx: Path
    function: str
    cubin: Path | None

    def module(self) -> Module:
        """Return the parsed PTX. Raises Misuse for a file that is not PTX."""
        try:
            with warnings.catch_warnings(record=True) as notes:
                warnings.simplefilter("always")
                module = Module.from_file(self.ptx)
        except (UnicodeDecodeError, PtxError) as error:
            why = str(error).splitlines()[0].replace(f"{self.ptx}:", "line ")
            raise Misuse(f"{self.ptx} is not readable PTX: {why[:200]}") from None
        for note in notes:
            print(f"ptxsim: note: {note.message}", file=sys.stderr)
        if not module.kernels:
            raise Misuse(f"{self.ptx} contains no kernel")
        return module


def find(target: Path, ptx: Path | None, function: str | None) -> Build:
    """Return the build of a folder or object file; Misuse names what is missing."""
    if not target.exists():
        raise Misuse(f"no such file or folder: {target}")
    if target.is_file() and target.suffix not in (".o", ".obj", ".so"):
        raise Misuse(f"{target} is neither a folder nor an object (.o) exported by CuTe DSL")
    folder = target if target.is_dir() else target.parent
    obj = target if target.is_file() else _only(folder, ".o", "an object that CuTe DSL exported (export_to_c)")
    text = ptx or (obj.with_suffix(".ptx") if obj.with_suffix(".ptx").exists() else None)
    text = text or _only(folder, ".ptx", "the PTX of the same compilation (--keep-ptx), or --ptx FILE")
    if not text.is_file():
        raise Misuse(f"--ptx: no such file: {text}")
    names = exported(obj)
    if not names:
        raise Misuse(f"{obj} exports no function: compile it with --enable-tvm-ffi")
    chosen = function or _recorded(folder / "build.json") or (names[0] if len(names) == 1 else None)
    if chosen is None:
        raise Misuse(f"{obj} exports {', '.join(names)}: choose one with --function")
    if chosen not in names:
        raise Misuse(f"{obj} exports no function {chosen}{nearest(chosen, names)}; it has {', '.join(names)}")
    cubins = sorted(folder.glob("*.cubin"))
    return Build(obj, text, chosen, cubins[0] if len(cubins) == 1 else None)


def _only(folder: Path, ending: str, what: str) -> Path:
    files = sorted(folder.glob(f"*{ending}"))
    if len(files) == 1:
        return files[0]
    names = ", ".join(x.name for x in files) or "none"
    raise Misuse(f"{folder} needs one {ending} file, {what}; it has {names}")


def _recorded(path: Path) -> str | None:
    """Return the function that build.json names; None without that file."""
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Misuse(f"{path} is not valid JSON ({error}); remove it, or pass --function NAME") from None
    name = record.get("function") if isinstance(record, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"\w+", name) else None
