"""Rule machine: record what this node is and can do."""

from cutesnake.model import provenance
from cutesnake.planning.machine import probe
from cutesnake.planning.nodes import write_probe
from cutesnake.runtime.errors import one_line

with one_line("machine", snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    write_probe(snakemake.wildcards.machine, probe(snakemake.params.modules), snakemake.output.record)
