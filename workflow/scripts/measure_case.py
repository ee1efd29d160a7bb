"""Snakemake script of the GPU stages: `params.stage` says which, `params.identity` which case."""

from cutesnake.stage import run_stage

run_stage(
    snakemake.params.stage,  # noqa: F821
    snakemake.params.identity,  # noqa: F821
    snakemake.params.settings,  # noqa: F821
    snakemake.input.build,  # noqa: F821
    snakemake.output.record,  # noqa: F821
    needs=snakemake.input.get("checked", []),  # noqa: F821
)
