"""Target gate: fail with the worst changes if a toolchain made builds worse than allowed."""

import sys

from cutesnake.analysis.toolchains import gate
from cutesnake.model import record
from cutesnake.runtime.errors import one_line

with one_line("gate", snakemake.log[0]):
    if len(snakemake.params.toolchains) < 2:
        sys.exit("gate: it compares toolchains; name two: --config 'toolchains=[main, cute-4.8.1-cu13]'")
    fine, message = gate(record.read("toolchains", snakemake.input.matrix))
    if not fine:
        sys.exit(f"gate: {message}")
    print(f"gate: {message}")
