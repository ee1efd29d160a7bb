"""Opcode census of PTX files as Markdown: uses, targets, whether each is simulated."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .commandline.output import abandon
from .frontend.code import Block, Code
from .frontend.generator import Generator
from .frontend.parser import Module
from .frontend.syntax import Kernel, PtxError


class _Probe(Code):
    """A program of single-instruction blocks, so that each instruction can be tested alone."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module, self.kernel = module, kernel
        self.instructions = kernel.instructions
        self.namespace, self.bound = {}, {}
        self.blocks = [Block(n, n + 1, n, n + 1) for n in range(len(kernel.instructions))]
        self.block_of = {n: n for n in range(len(kernel.instructions) + 1)}

    def problem(self, n: int) -> str:
        """Return why an instruction cannot be simulated, or ""."""
        try:
            Generator(self, self.blocks[n], masked=True).source()
        except PtxError as error:
            return str(error).split(": ", 2)[-1]
        return ""


class Use(NamedTuple):
    """Uses of an opcode, its files and targets, and why it is not simulated."""

    uses: int
    files: int
    targets: str
    problem: str


def census(paths: list[Path]) -> dict[str, Use]:
    """Return the opcodes of PTX files, in alphabetical order."""
    uses: Counter[str] = Counter()
    files: dict[str, set[Path]] = {}
    targets: dict[str, set[str]] = {}
    problem: dict[str, str] = {}
    for path in paths:
        module = Module.from_file(path)
        for kernel in module.kernels.values():
            probe = _Probe(module, kernel)
            for n, ins in enumerate(kernel.instructions):
                uses[ins.op] += 1
                files.setdefault(ins.op, set()).add(path)
                targets.setdefault(ins.op, set()).add(module.target)
                if ins.op not in problem and (why := probe.problem(n)):
                    problem[ins.op] = why
    return {
        op: Use(uses[op], len(files[op]), " ".join(sorted(targets[op])), problem.get(op, "")) for op in sorted(uses)
    }


def table(paths: list[Path]) -> str:
    """Return the census as a Markdown table."""
    rows = census(paths)
    bad = sum(bool(use.problem) for use in rows.values())
    out = [
        f"{len(rows)} opcodes in {len(paths)} files; {len(rows) - bad} simulated, {bad} not.",
        "",
        "| opcode | uses | files | targets | simulated |",
        "|---|---|---|---|---|",
    ]
    out += [
        f"| {op} | {use.uses} | {use.files} | {use.targets} | {'no: ' + use.problem[:80] if use.problem else 'yes'} |"
        for op, use in rows.items()
    ]
    return "\n".join(out)


def main(argv: Sequence[str]) -> int:
    """Print the census of readable files; report each unreadable file on stderr."""
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: python -m ptxsim.census FILE.ptx…", file=sys.stderr)
        return 0 if argv else 2
    readable: list[Path] = []
    for path in map(Path, argv):
        try:
            if not Module.from_file(path).kernels:
                raise PtxError("contains no kernel")
            readable.append(path)
        except (OSError, UnicodeDecodeError, PtxError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error).removeprefix(f"{path}:")
            print(f"ptxsim.census: {path}: {why}", file=sys.stderr)
    if readable:
        print(table(readable))
    return 0 if len(readable) == len(argv) else 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        sys.exit(abandon())
