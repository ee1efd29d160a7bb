"""Snakemake script of the rule inspect. Not named inspect.py: that would stand in for Python's own module `inspect`."""

from cutesnake.fault import one_line
from cutesnake.inspect.build import inspect_build

with one_line("inspect", snakemake.log[0]):
    inspect_build(
        snakemake.input.build,
        snakemake.input.devices,
        snakemake.output.record,
    )
