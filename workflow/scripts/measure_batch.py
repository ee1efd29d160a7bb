"""Snakemake script of the rule batch: many cases of one build, each with a record of its own."""

from cutesnake.runtime.errors import one_line
from cutesnake.stages.measure.batch import run_batch

with one_line(snakemake.wildcards.stage, snakemake.log[0]):
    run_batch(
        snakemake.wildcards.stage,
        snakemake.params.cases,
        snakemake.params.settings,
        snakemake.output.record,
        snakemake.params.device,
    )
