"""Rule batch: measure many cases of one build, one record each."""

from cutesnake.model import provenance
from cutesnake.runtime.errors import one_line
from cutesnake.stages.measure.batch import run_batch

with one_line(snakemake.wildcards.stage, snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    run_batch(
        snakemake.wildcards.stage,
        snakemake.params.cases,
        snakemake.params.settings,
        snakemake.output.record,
        snakemake.params.device,
    )
