"""Snakemake script of the rule fetch: the wildcard `package` names an entry of kernels/upstream.yaml."""

from pathlib import Path

from cutesnake.build.fetch import fetch
from cutesnake.fault import one_line

with one_line("fetch", snakemake.log[0]):
    fetch(snakemake.wildcards.package, Path(snakemake.output.record).parent, snakemake.input.upstream)
