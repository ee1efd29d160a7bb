"""How jobs run: processes, locks, errors, and Snakemake's internals."""
