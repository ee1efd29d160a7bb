"""Rule toolchain: compile a kernel with a toolchain, check and predict its builds."""

from cutesnake.runtime.job import do, do_each, listed

log, asked = snakemake.log[0], snakemake.params.asked
if asked["jobs"]:
    do(
        "host",
        "compile",
        log,
        "cutesnake.stages.toolchain.builds:compile_with",
        environment=next(iter(listed(snakemake.input.get("environment", []))), None),
        dsl=asked["dsl"],
        target=snakemake.wildcards.target,
        jobs=asked["jobs"],
    )
do_each("simulator", "correctness", log, "cutesnake.stages.measure.batch:simulate_case", asked["checks"])
do_each("simulator", "predict", log, "cutesnake.stages.predict.prediction:run_case", asked["predictions"])
for measured in asked["measured"]:
    do(None, measured["stage"], log, "cutesnake.stages.measure.batch:measure_case", **measured)
do(
    "host",
    "toolchain",
    log,
    "cutesnake.stages.toolchain.builds:write_summary",
    **dict(snakemake.wildcards.items()),
    dsl=asked["dsl"],
    builds=asked["builds"],
    output=snakemake.output.record,
    made_from=snakemake.params.made_from,
)
