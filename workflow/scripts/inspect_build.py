"""Snakemake script of the rule inspect. Not named inspect.py: that would stand in for Python's own module `inspect`."""

from cutesnake.inspect.build import inspect_build

inspect_build(
    snakemake.input.build,  # noqa: F821
    snakemake.input.devices,  # noqa: F821
    snakemake.output.record,  # noqa: F821
)
