"""The library behind the workflow's scripts. Importable without Snakemake, torch or either DSL."""
