"""Snakemake script of the rule fetch: the wildcard `package` names an entry of kernels/upstream.yaml."""

from pathlib import Path

from cutesnake.fetch import fetch

fetch(snakemake.wildcards.package, Path(snakemake.output.record).parent, snakemake.input.upstream)  # noqa: F821
