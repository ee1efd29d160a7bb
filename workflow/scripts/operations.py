"""Rule operations: write the table of operations and its page."""

from cutesnake.runtime.job import do

do(
    "pages",
    "operations",
    snakemake.log[0],
    "cutesnake.report.operations:write_files",
    builds=snakemake.input.builds,
    checks=snakemake.params.checks,
    operations=snakemake.input.operations,
    front=snakemake.params.front,
    first=snakemake.params.first,
    output=snakemake.output.record,
    page=snakemake.output.page,
    made_from=snakemake.params.made_from,
)
