"""Rule toolchains: compare toolchains and write the page."""

from cutesnake.runtime.job import do, listed

do(
    "pages",
    "toolchains",
    snakemake.log[0],
    "cutesnake.report.toolchains:write_files",
    records=listed(snakemake.input.records),
    environments=listed(snakemake.input.environments),
    toolchains=snakemake.params.toolchains,
    limits=snakemake.params.limits,
    front=snakemake.params.front,
    output=snakemake.output.record,
    page=snakemake.output.page,
    pages=listed(snakemake.output.get("operators", [])),
    made_from=snakemake.params.made_from,
)
