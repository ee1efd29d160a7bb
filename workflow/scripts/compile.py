"""Snakemake script of the rule compile: wildcards name the build, `params.variant` holds its values."""

import sys
from pathlib import Path

from cutesnake.compile import compile_build
from cutesnake.contract import Variant

wildcards = snakemake.wildcards  # noqa: F821
try:
    compile_build(
        wildcards.operator,
        wildcards.kernel,
        wildcards.target,
        Variant(wildcards.variant, snakemake.params.variant),  # noqa: F821
        Path(snakemake.output.record).parent,  # noqa: F821
        log=snakemake.log[0],  # noqa: F821
    )
except OSError as error:  # CompileError, or a disk that is full or read-only
    sys.exit(f"compile: {error}")
