"""Snakemake script of the rule fetch: the wildcard `package` names an entry of kernels/upstream.yaml."""

import sys
from pathlib import Path

from cutesnake.fetch import fetch

try:
    fetch(snakemake.wildcards.package, Path(snakemake.output.record).parent, snakemake.input.upstream)  # noqa: F821
except OSError as error:  # FetchError, or a disk that is full or read-only
    Path(snakemake.log[0]).write_text(f"{error}\n")  # noqa: F821
    sys.exit(f"fetch: {error}")
