"""Static figures: what a build uses, and how fast each workload can be on each device at best."""

DEVICES = f"{workflow.basedir}/config/devices.yaml"


def workload_parameters_of(wildcards):
    return [asdict(workload) for workload in PLAN.workloads[wildcards.operator]]


def roofline_code_of(wildcards):
    return digest_code("cutesnake.inspect.roofline", f"kernels.{wildcards.operator}.operator")


rule inspect:
    output:
        record="results/inspect/{operator}/{kernel}/{target}/{variant}.json",
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        devices=DEVICES,
    log:
        "results/log/inspect/{operator}/{kernel}/{target}/{variant}.log",
    params:
        code=digest_code("cutesnake.inspect.build"),
    script:
        "../scripts/inspect_build.py"


rule roofline:
    output:
        record="results/inspect/{operator}/roofline.json",
    input:
        devices=DEVICES,
    log:
        "results/log/inspect/{operator}/roofline.log",
    params:
        workloads=workload_parameters_of,
        code=roofline_code_of,
    script:
        "../scripts/roofline.py"
