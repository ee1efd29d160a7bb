"""Rule clean: remove results that the plan does not name."""

from pathlib import Path

from cutesnake.planning import leftovers
from cutesnake.runtime.errors import one_line

with one_line("clean", snakemake.log[0]):
    leftovers.remove(map(Path, snakemake.params.paths), Path("results"))
