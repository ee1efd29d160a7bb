"""The library behind the workflow's scripts. Importable without Snakemake, torch or either DSL."""

from cutesnake.results import read_results

__all__ = ["read_results"]
