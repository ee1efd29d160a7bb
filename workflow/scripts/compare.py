"""Rule compare: write one operator's comparison and plots."""

from cutesnake.runtime.job import do

do(
    "plots",
    "compare",
    snakemake.log[0],
    "cutesnake.report.plot:compare_and_plot",
    plan=snakemake.input.plan,
    records=snakemake.input.records,
    roofline=snakemake.input.roofline,
    recorded=snakemake.input.recorded,
    kept=snakemake.input.kept,
    validation=snakemake.input.held,
    output=snakemake.output.record,
    table=snakemake.output.table,
    folder=snakemake.output.pictures,
    made_from=snakemake.params.made_from,
)
