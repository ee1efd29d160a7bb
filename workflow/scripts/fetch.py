"""Rule fetch: fetch the package of kernels/upstream.yaml that the wildcard names."""

from pathlib import Path

from cutesnake.model import provenance
from cutesnake.runtime.errors import one_line
from cutesnake.stages.fetch import fetch

with one_line("fetch", snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    fetch(snakemake.wildcards.package, Path(snakemake.output.record).parent, snakemake.params.upstream)
