"""Snakemake script of the rule anatomy_pages: a page per kernel of one operator."""

from pathlib import Path

from cutesnake.anatomy.page import write_pages
from cutesnake.fault import one_line

with one_line("anatomy_pages", snakemake.log[0]):
    up = [("front page", f"../../../{snakemake.params.front}"), (snakemake.wildcards.operator, snakemake.params.page)]
    write_pages(Path(snakemake.input.records), Path("results"), Path(snakemake.output.folder), up)
