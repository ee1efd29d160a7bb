"""Target unchanged: fail with one line if something got worse than allowed."""

import sys

from cutesnake.analysis.change.change import unchanged
from cutesnake.model import record
from cutesnake.runtime.errors import one_line

with one_line("unchanged", snakemake.log[0]):
    if not snakemake.input.changes:
        sys.exit("unchanged: the configuration names no baseline; name one: --config baseline=recorded/<device>")
    changes = [record.read("change", path) for path in snakemake.input.changes]
    fine, message = unchanged(changes, snakemake.params.fails)
    if not fine:
        sys.exit(f"unchanged: {message}")
    print(f"unchanged: {message}")
