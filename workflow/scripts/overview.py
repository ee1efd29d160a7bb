"""Snakemake script of the rule overview: one picture of what all comparisons say."""

from cutesnake import record
from cutesnake.fault import one_line
from cutesnake.plot.overview import write_overview

with one_line("overview", snakemake.log[0]):
    write_overview((record.read("compare", path) for path in snakemake.input.comparisons), snakemake.output.folder)
