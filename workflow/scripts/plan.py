"""Rule plan: write the plan of one operator and its roofline."""

from cutesnake.runtime.job import do

do(
    "host",
    "plan",
    snakemake.log[0],
    "cutesnake.stages.inspect.roofline:plan_and_roofline",
    plan=snakemake.params.plan,
    output=snakemake.output.record,
    machine=snakemake.params.machine,
    devices=snakemake.input.devices,
    rooflines=snakemake.output.roofline,
    recorded=snakemake.params.recorded,
    made_from=snakemake.params.made_from,
)
