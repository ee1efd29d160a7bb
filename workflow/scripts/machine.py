"""Snakemake script of the rule machine: what the node that it runs on is and can do."""

from cutesnake.fault import one_line
from cutesnake.plan.machine import probe
from cutesnake.plan.nodes import write_probe

with one_line("machine", snakemake.log[0]):
    write_probe(snakemake.wildcards.machine, probe(snakemake.params.modules), snakemake.output.record)
