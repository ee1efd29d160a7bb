"""Static figures: what a build uses, and how fast each workload can be on each device at best."""


rule inspect:
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        devices=str(PROJECT / "config/devices.yaml"),
    output:
        record="results/inspect/{operator}/{kernel}/{target}/{variant}.json",
    log:
        "results/log/inspect/{operator}/{kernel}/{target}/{variant}.log",
    priority: BUILDS_FIRST
    group:
        grouped("builds")
    conda:
        "../../envs/environment.yaml"
    resources:
        slurm_partition=asked_of_slurm("partition"),
        constraint=asked_of_slurm("constraint"),
    params:
        code=digest_code("inspect_build.py"),
    script:
        "../scripts/inspect_build.py"


rule roofline:
    input:
        devices=str(PROJECT / "config/devices.yaml"),
    output:
        record="results/inspect/{operator}/roofline.json",
    log:
        "results/log/inspect/{operator}/roofline.log",
    priority: BUILDS_FIRST
    conda:
        "../../envs/environment.yaml"
    params:
        workloads=workload_parameters_of,
        machine={"devices": MACHINE.as_dict()["devices"], "selected": MACHINE.selected},
        recorded=[*recorded_devices(), *cards_of_nodes()],
        code=roofline_code_of,
    script:
        "../scripts/roofline.py"
