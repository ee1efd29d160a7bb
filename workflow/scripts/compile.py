"""Snakemake script of the rule compile: wildcards name the build, `params.variant` holds its values."""

from pathlib import Path

from cutesnake.build.compile import LIMIT_SECONDS, compile_build
from cutesnake.contract import Variant
from cutesnake.fault import one_line

wildcards = snakemake.wildcards
with one_line("compile", snakemake.log[0]):
    compile_build(
        wildcards.operator,
        wildcards.kernel,
        wildcards.target,
        Variant(wildcards.variant, snakemake.params.variant),
        Path(snakemake.output.record).parent,
        log=snakemake.log[0],
        scratch=snakemake.resources.tmpdir if snakemake.resources.build_in == "scratch" else None,
        limit_s=snakemake.config.get("compile", {}).get("max_seconds", LIMIT_SECONDS),
    )
