"""Snakemake script of the rule roofline: `params.workloads` holds the parameters of each workload of an operator."""

from cutesnake.runtime.job import do

do(
    "host",
    "roofline",
    snakemake.log[0],
    "cutesnake.stages.inspect.roofline:roofline_here",
    machine=snakemake.params.machine,
    operator=snakemake.wildcards.operator,
    workloads=snakemake.params.workloads,
    devices=snakemake.input.devices,
    output=snakemake.output.record,
    recorded=snakemake.params.recorded,
)
