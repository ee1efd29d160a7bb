"""Every build that runs here against the operator's reference, on every workload."""
from dataclasses import asdict


def identity_of(wildcards):
    """The case that wildcards name, as plain data."""
    build = build_of(wildcards)
    workload = next(w for w in PLAN.workloads[wildcards.operator] if w.id == wildcards.workload)
    return {
        "operator": build.operator,
        "kernel": build.kernel,
        "target": build.target,
        "variant": {"id": build.variant.id, "params": dict(build.variant.params)},
        "parameters": asdict(workload),
    }


def running_code(stage):
    """Digest of the code that a measurement depends on: the stage and the kernel with all they import."""

    def digest(wildcards):
        return digest_code(f"cutesnake.{stage}", f"kernels.{wildcards.operator}.{wildcards.kernel}")

    return digest


def checked_first(wildcards):
    """The case's correctness record where that stage is wanted: what is wrong is not timed."""
    if "correctness" not in config["stages"]:
        return []
    return "results/correctness/{0.operator}/{0.kernel}/{0.target}/{0.variant}/{0.workload}.json".format(wildcards)


rule correctness:
    output:
        record="results/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
    log:
        "results/log/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    params:
        stage="correctness",
        identity=identity_of,
        settings=config["correctness"],
        device=MACHINE.fingerprint,
        code=running_code("correctness"),
    resources:
        gpu=1,
    script:
        "../scripts/measure_case.py"
