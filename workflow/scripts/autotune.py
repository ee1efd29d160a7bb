"""Rule autotune: choose a variant from the timing records of one case."""

from cutesnake.model import provenance
from cutesnake.runtime.errors import one_line
from cutesnake.stages.measure.autotune import write_choice

with one_line("autotune", snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    write_choice(snakemake.params.timings, snakemake.output.record)
