"""Rule change: compare one operator's records with the baseline."""

from cutesnake.analysis.change import baseline
from cutesnake.analysis.change.change import write_change
from cutesnake.analysis.evidence.gather import load_evidence
from cutesnake.model import provenance
from cutesnake.runtime.errors import one_line

with one_line("change", snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    evidence = load_evidence(
        snakemake.input.plan, snakemake.input.records, snakemake.input.roofline, snakemake.input.recorded
    )
    place = baseline.locate(snakemake.params.baseline)
    before = baseline.read(place, snakemake.wildcards.operator)
    write_change(evidence, place, before, snakemake.output.record, snakemake.output.table)
