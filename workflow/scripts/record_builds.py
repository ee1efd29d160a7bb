"""Rule record_builds: write this run's builds, checks and predictions into recorded/builds/."""

from pathlib import Path

from cutesnake.analysis.evidence.gather import load_evidence
from cutesnake.analysis.evidence.recorded_set import refuse_mocked_machine
from cutesnake.analysis.summary import NAME, write_summary
from cutesnake.analysis.verdict.verdicts import read_anatomy, verdicts
from cutesnake.model import kept_builds, record
from cutesnake.runtime.errors import one_line

with one_line("record_builds", snakemake.log[0]):
    refuse_mocked_machine()
    folder = Path(snakemake.params.folder)
    count = kept_builds.write_builds(folder, snakemake.params.recorded_keys, snakemake.params.recorded_paths)
    comparisons = [record.read("compare", path) for path in snakemake.input.comparisons]
    decided = {}
    for compared in comparisons:
        files = snakemake.params.evidence[compared.operator]
        evidence = load_evidence(*(files[name] for name in ("plan", "records", "roofline", "recorded", "kept")))
        anatomy = read_anatomy(files["anatomy"][0]) if files["anatomy"] else {}
        decided[compared.operator] = verdicts(evidence, compared, anatomy)
    write_summary(comparisons, folder / NAME, decided)
    record.write_text(Path(snakemake.output.summary), f"{count} builds\n")
