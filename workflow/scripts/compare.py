"""Snakemake script of the rule compare: one operator's records into its comparison."""

from cutesnake.runtime.job import do

do(
    "pages",
    "compare",
    snakemake.log[0],
    "cutesnake.analysis.compare.comparison:compare_files",
    plan=snakemake.input.plan,
    records=snakemake.input.records,
    roofline=snakemake.input.roofline,
    recorded=snakemake.input.recorded,
    output=snakemake.output.record,
    table=snakemake.output.table,
)
