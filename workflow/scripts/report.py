"""Rules report and page: write the pages of an operator."""

from cutesnake.runtime.job import do

do(
    "pages",
    "report",
    snakemake.log[0],
    "cutesnake.report.files:report_files",
    files={**dict(snakemake.input.items()), "upstream": snakemake.params.upstream},
    config=snakemake.config,
    sweep=snakemake.params.sweep,
    front=snakemake.params.front,
    output=snakemake.output.page,
    placeholders=snakemake.params.get("placeholders"),
    anatomy=snakemake.output.get("anatomy"),
    made_from=snakemake.params.made_from,
)
