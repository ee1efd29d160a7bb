"""Snakemake script of the rule roofline: `params.workloads` holds the parameters of each workload of an operator."""

from cutesnake.fault import one_line
from cutesnake.inspect.roofline import roofline
from cutesnake.plan.machine import Machine

with one_line("roofline", snakemake.log[0]):
    roofline(
        snakemake.wildcards.operator,
        snakemake.params.workloads,
        snakemake.input.devices,
        snakemake.output.record,
        Machine.from_dict(snakemake.params.machine).device,
        snakemake.params.recorded,
    )
