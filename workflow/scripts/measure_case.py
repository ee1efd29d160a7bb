"""Snakemake script of the GPU stages: `params.stage` says which, `params.identity` which case."""

from cutesnake.planning.staleness import digest_case
from cutesnake.runtime.job import do

# A batch, should there be one later, takes records over whose digest is its own: see cases_of_batch in cases.smk.
in_batches = snakemake.params.stage in ("correctness", "timing")
depends_on = [snakemake.params[name] for name in ("settings", "device", "code", "identity")]

do(
    None,
    snakemake.params.stage,
    snakemake.log[0],
    "cutesnake.stages.measure.stage:run_case",
    stage=snakemake.params.stage,
    identity=snakemake.params.identity,
    settings=snakemake.params.settings,
    build=snakemake.input.build,
    output=snakemake.output.record,
    checked=snakemake.input.get("checked", []),
    log=snakemake.log[0],
    timed=snakemake.input.get("timed", []),
    card=snakemake.params.device,
    origin=digest_case(*depends_on) if in_batches else None,
)
