"""Snakemake script of the rule fetch: the wildcard `package` names an entry of kernels/upstream.yaml."""

import sys
from pathlib import Path

from cutesnake.fetch import FetchError, fetch

try:
    fetch(snakemake.wildcards.package, Path(snakemake.output.record).parent, snakemake.input.upstream)  # noqa: F821
except FetchError as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")  # noqa: F821
    sys.exit(f"fetch: {error}")
