"""Snakemake script of the rule compare: one operator's records into its comparison."""

from cutesnake.compare import write_comparison
from cutesnake.evidence import load_evidence

operator = snakemake.wildcards.operator  # noqa: F821
evidences = load_evidence(
    snakemake.input.arch,  # noqa: F821
    snakemake.input.records,  # noqa: F821
    snakemake.input.rooflines,  # noqa: F821
    snakemake.params.recorded,  # noqa: F821
)
evidence = next(evidence for evidence in evidences if evidence.operator == operator)
write_comparison(evidence, snakemake.output.record)  # noqa: F821
