"""Snakemake script of the rule inspect. Not named inspect.py: that would stand in for Python's own module `inspect`."""

from cutesnake.runtime.job import do

do(
    "host",
    "inspect",
    snakemake.log[0],
    "cutesnake.stages.inspect.build:inspect_build",
    build_json=snakemake.input.build,
    devices=snakemake.input.devices,
    output=snakemake.output.record,
)
