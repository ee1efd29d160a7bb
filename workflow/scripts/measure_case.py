"""GPU stages: measure the case `params.identity` of the stage `params.stage`."""

from cutesnake.runtime.job import do

do(
    None,
    snakemake.params.stage,
    snakemake.log[0],
    "cutesnake.stages.measure.stage:run_case",
    stage=snakemake.params.stage,
    identity=snakemake.params.identity,
    settings=snakemake.params.settings,
    build=snakemake.input.build,
    output=snakemake.output.record,
    checked=snakemake.input.get("checked", []),
    log=snakemake.log[0],
    timed=snakemake.input.get("timed", []),
    planned_gpu=snakemake.params.device,
    made_from=snakemake.params.made_from,
)
