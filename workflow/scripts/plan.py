"""Snakemake script of the rule plan: what is asked of one operator."""

from cutesnake.runtime.job import do

do(
    "host",
    "plan",
    snakemake.log[0],
    "cutesnake.planning.arch_record:write_plan",
    plan=snakemake.params.plan,
    output=snakemake.output.record,
)
