"""Rule catalogue_page: write the page of all operators."""

from cutesnake.runtime.job import do

do(
    "pages",
    "catalogue",
    snakemake.log[0],
    "cutesnake.report.catalogue:catalogue_files",
    files=dict(snakemake.input.items()),
    front=snakemake.params.front,
    output=snakemake.output.page,
    made_from=snakemake.params.made_from,
)
