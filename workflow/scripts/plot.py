"""Snakemake script of the rule plot: every picture of one operator, and the record of them."""

from cutesnake.runtime.job import do

do(
    "pictures",
    "plot",
    snakemake.log[0],
    "cutesnake.report.plot:plot_files",
    plan=snakemake.input.plan,
    records=snakemake.input.records,
    roofline=snakemake.input.roofline,
    recorded=snakemake.input.recorded,
    held=snakemake.input.held,
    folder=snakemake.output.folder,
)
