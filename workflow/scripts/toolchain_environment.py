"""Rule toolchain_environment: install a toolchain."""

from cutesnake.model import provenance
from cutesnake.runtime.errors import one_line
from cutesnake.stages.toolchain.environment import install

with one_line("toolchain", snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    install(snakemake.params.entry, snakemake.output.record)
