"""Rule learn_page: write a page of goals, and the anatomy of its kernels."""

from pathlib import Path

from cutesnake.model import provenance
from cutesnake.report.learn.goals import read_goals
from cutesnake.report.learn.page import Asked, write
from cutesnake.runtime.errors import one_line

with one_line("learn", snakemake.log[0]), provenance.making(**snakemake.params.made_from):
    asked = Asked(
        page=snakemake.wildcards.lesson,
        goals=read_goals(snakemake.input.goals),
        builds={kernel: (key, problems) for kernel, (key, problems) in snakemake.params.builds.items()},
        checks=snakemake.params.checks,
        own=snakemake.params.own,
        timelines=snakemake.params.timelines,
        devices=snakemake.params.devices,
    )
    write(asked, Path("results"), Path(snakemake.output.page), Path(snakemake.output.folder))
