"""Rules exercise and exercises: write the page of one exercise, or of all."""

from pathlib import Path

from cutesnake.runtime.job import do

one = "exercise" in dict(snakemake.wildcards)
asked = {"name": snakemake.wildcards.exercise, "values": snakemake.params.exercise} if one else {}
do(
    "simulator" if one else "pages",
    "exercise",
    snakemake.log[0],
    f"cutesnake.report.learn.exercises:{'write' if one else 'write_index'}",
    **(asked or {"goals": snakemake.input.goals}),
    fetched=str(Path(snakemake.input.upstream).parents[1]),
    output=snakemake.output.page,
    made_from=snakemake.params.made_from,
)
