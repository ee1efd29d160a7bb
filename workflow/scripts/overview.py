"""Rule overview: draw the plot of all comparisons."""

from cutesnake.runtime.job import do

do(
    "plots",
    "overview",
    snakemake.log[0],
    "cutesnake.report.plot.overview:overview_files",
    comparisons=snakemake.input.comparisons,
    folder=snakemake.output.folder,
    made_from=snakemake.params.made_from,
)
