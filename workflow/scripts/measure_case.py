"""Snakemake script of the GPU stages: `params.stage` says which, `params.identity` which case."""

from cutesnake.job import do

do(
    "simulator" if snakemake.params.get("backend") == "ptxsim" else None,
    snakemake.params.stage,
    snakemake.log[0],
    "cutesnake.measure.stage:run_case",
    stage=snakemake.params.stage,
    identity=snakemake.params.identity,
    settings=snakemake.params.settings,
    build=snakemake.input.build,
    output=snakemake.output.record,
    checked=snakemake.input.get("checked", []),
    backend=snakemake.params.get("backend", "cuda"),
    log=snakemake.log[0],
    timed=snakemake.input.get("timed", []),
    card=snakemake.params.device,
)
