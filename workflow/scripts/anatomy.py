"""Snakemake script of the rule anatomy: what every build of one operator sets up and does."""

from pathlib import Path

from cutesnake.anatomy.folder import write_folder
from cutesnake.fault import one_line

with one_line("anatomy", snakemake.log[0]):
    write_folder(snakemake.wildcards.operator, snakemake.params.builds, Path("results"), Path(snakemake.output.folder))
