"""Rule site: write the static site."""

from pathlib import Path

from cutesnake.report.example_changes import NAME, write_example
from cutesnake.report.site import write_site
from cutesnake.runtime.errors import one_line

with one_line("site", snakemake.log[0]):
    front = Path(snakemake.input.front)
    files = {**snakemake.params.files, "arch": snakemake.input.arch}
    why_not = write_example(files, snakemake.config, snakemake.params.sweep, front.name, front.parent / "report")
    print(write_site(str(front), snakemake.params.project, snakemake.output.folder))
    (front.parent / "report" / NAME).unlink(missing_ok=True)  # the run's own pages have no baseline
    if why_not:
        print(f"no example of two versions: {why_not}")
