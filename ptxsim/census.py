"""Which opcodes kernels use and whether they are simulated: `python -m ptxsim.census FILE.ptx...` prints a table."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from . import Module, PtxError
from .translate import Block, Generator, Program


class _Probe(Program):
    """A program whose blocks are single instructions, so that each can be tried by itself."""

    def __init__(self, module, kernel) -> None:
        self.module, self.kernel = module, kernel
        self.instructions = kernel.instructions
        self.namespace, self.constants, self.pending = {}, {}, {}
        self.blocks = [Block(n, n + 1, n, n + 1) for n in range(len(kernel.instructions))]
        self.block_of = {n: n for n in range(len(kernel.instructions))}


def census(paths: list[Path]) -> dict[str, tuple[int, int, str, str]]:
    """opcode → (uses, files it is in, their targets, "" or why it cannot be simulated)."""
    uses, files, targets, trouble = Counter(), {}, {}, {}
    for path in paths:
        module = Module.from_file(path)
        for kernel in module.kernels.values():
            probe = _Probe(module, kernel)
            for n, ins in enumerate(kernel.instructions):
                uses[ins.op] += 1
                files.setdefault(ins.op, set()).add(path)
                targets.setdefault(ins.op, set()).add(module.target)
                if ins.op in trouble:
                    continue
                try:
                    Generator(probe, probe.blocks[n], True).source()
                except PtxError as error:
                    trouble[ins.op] = str(error).split(": ", 2)[-1]
    return {op: (uses[op], len(files[op]), " ".join(sorted(targets[op])), trouble.get(op, "")) for op in sorted(uses)}


def table(paths: list[Path]) -> str:
    """The census as a Markdown table."""
    rows = census(paths)
    bad = sum(bool(why) for *_, why in rows.values())
    out = [
        f"{len(rows)} opcodes in {len(paths)} files; {len(rows) - bad} simulated, {bad} not.",
        "",
        "| opcode | uses | files | targets | simulated |",
        "|---|---|---|---|---|",
    ]
    out += [
        f"| {op} | {n} | {k} | {where} | {'yes' if not why else 'no: ' + why[:80]} |"
        for op, (n, k, where, why) in rows.items()
    ]
    return "\n".join(out)


if __name__ == "__main__":
    print(table([Path(p) for p in sys.argv[1:]]))
