"""Rule anatomy: describe what each build of one operator sets up and runs."""

from cutesnake.runtime.job import do

do(
    "simulator",
    "anatomy",
    snakemake.log[0],
    "cutesnake.stages.anatomy.folder:write_folder",
    operator=snakemake.wildcards.operator,
    builds=snakemake.params.builds,
    results="results",
    folder=snakemake.output.folder,
    made_from=snakemake.params.made_from,
)
