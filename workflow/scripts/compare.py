"""Snakemake script of the rule compare: one operator's records into its comparison."""

from cutesnake.compare import write_comparison
from cutesnake.evidence import load_evidence
from cutesnake.fault import one_line
from cutesnake.recorded import folder_of

with one_line("compare", snakemake.log[0]):
    operator = snakemake.wildcards.operator
    evidences = load_evidence(
        snakemake.input.arch,
        snakemake.input.records,
        snakemake.input.rooflines,
        folder_of(snakemake.input.recorded),
    )
    evidence = next(evidence for evidence in evidences if evidence.operator == operator)
    write_comparison(evidence, snakemake.output.record)
