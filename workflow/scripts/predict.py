"""Snakemake script of the rule predict: `params.identity` says which case, `params.settings` for which card."""

from pathlib import Path

from cutesnake import record
from cutesnake.fault import one_line
from cutesnake.measure.case import Case
from cutesnake.predict.prediction import predict_build

with one_line("predict", snakemake.log[0]):
    build = snakemake.input.build
    case = Case(
        stage="predict",
        build=str(Path(build).resolve().parent),
        settings=snakemake.params.settings,
        **snakemake.params.identity,
    )
    record.write("predict", snakemake.output.record, predict_build(case, record.read("compile", build)))
