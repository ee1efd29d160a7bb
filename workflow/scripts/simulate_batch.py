"""Rule simulated: check a kernel's builds for one target, one record each."""

from cutesnake.runtime.job import do, do_each

cases, log = snakemake.params.cases, snakemake.log[0]
jobs = [{"case": case, "settings": case["settings"], "log": case["log"]} for case in cases]
do_each("simulator", "correctness", log, "cutesnake.stages.measure.batch:simulate_case", jobs)
do(
    "simulator",
    "correctness",
    log,
    "cutesnake.stages.measure.batch:write_summary",
    output=snakemake.output.record,
    records=[case["record"] for case in cases],
    made_from=snakemake.params.made_from,
)
