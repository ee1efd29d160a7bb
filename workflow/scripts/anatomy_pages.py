"""Snakemake script of the rule anatomy_pages: a page per kernel of one operator."""

from cutesnake.runtime.job import do

do(
    "simulator",
    "anatomy_pages",
    snakemake.log[0],
    "cutesnake.stages.anatomy.page:write_pages",
    records=snakemake.input.records,
    results="results",
    output=snakemake.output.folder,
    up=[
        ("front page", f"../../../{snakemake.params.front}"),
        (snakemake.wildcards.operator, snakemake.params.page),
    ],
)
