"""Rule predict: predict the case `params.identity` for the GPU in `params.settings`."""

from cutesnake.runtime.job import do

do(
    "simulator",
    "predict",
    snakemake.log[0],
    "cutesnake.stages.predict.prediction:run_case",
    identity=snakemake.params.identity,
    settings=snakemake.params.settings,
    build=snakemake.input.build,
    timing=snakemake.params.timing,
    output=snakemake.output.record,
    made_from=snakemake.params.made_from,
)
