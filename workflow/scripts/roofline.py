"""Snakemake script of the rule roofline: `params.workloads` holds the parameters of each workload of an operator."""

from cutesnake.inspect.roofline import roofline

roofline(
    snakemake.wildcards.operator,  # noqa: F821
    snakemake.params.workloads,  # noqa: F821
    snakemake.input.devices,  # noqa: F821
    snakemake.output.record,  # noqa: F821
)
