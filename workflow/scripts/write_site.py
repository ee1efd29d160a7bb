"""Rule site: write the static site."""

from cutesnake.report.site import write_site
from cutesnake.runtime.errors import one_line

with one_line("site", snakemake.log[0]):
    print(write_site(snakemake.input.front, snakemake.params.project, snakemake.output.folder))
