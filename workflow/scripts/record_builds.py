"""Rule record_builds: write this run's builds, checks and predictions into recorded/builds/."""

from pathlib import Path

from cutesnake.analysis.evidence.recorded_set import refuse_mocked_machine
from cutesnake.analysis.summary import NAME, write_summary
from cutesnake.model import kept_builds, record
from cutesnake.runtime.errors import one_line

with one_line("record_builds", snakemake.log[0]):
    refuse_mocked_machine()
    folder = Path(snakemake.params.folder)
    count = kept_builds.write_builds(folder, snakemake.params.recorded_keys, snakemake.params.recorded_paths)
    write_summary([record.read("compare", path) for path in snakemake.input.comparisons], folder / NAME)
    record.write_text(Path(snakemake.output.summary), f"{count} builds\n")
