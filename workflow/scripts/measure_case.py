"""Snakemake script of the GPU stages: `params.stage` says which, `params.identity` which case."""

from cutesnake.fault import one_line
from cutesnake.measure.stage import records_of_case, run_stage

with one_line(snakemake.params.stage, snakemake.log[0]):
    run_stage(
        snakemake.params.stage,
        snakemake.params.identity,
        snakemake.params.settings,
        snakemake.input.build,
        snakemake.output.record,
        needs=records_of_case("correctness", snakemake.output.record, snakemake.input.get("checked", [])),
        backend=snakemake.params.get("backend", "cuda"),
        log=snakemake.log[0],
        timed=(records_of_case("timing", snakemake.output.record, snakemake.input.get("timed", [])) or [None])[0],
        card=snakemake.params.device,
    )
