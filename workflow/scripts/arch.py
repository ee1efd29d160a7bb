"""Rule arch: record the machine and its tools."""

from cutesnake.model import provenance
from cutesnake.planning.arch_record import write_arch
from cutesnake.planning.machine import Machine
from cutesnake.runtime.errors import one_line

with one_line("arch", snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    write_arch(Machine.from_dict(snakemake.params.machine), snakemake.params.plan, snakemake.output.record)
