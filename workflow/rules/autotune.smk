"""Which variant is fastest: a choice from timing records, redone when one of them changes."""


def timings_of(wildcards):
    return [
        f"results/timing/{case.key}.json"
        for case in PLAN.run_here("timing")
        if (case.build.operator, case.build.kernel, case.build.target, case.workload.id)
        == (wildcards.operator, wildcards.kernel, wildcards.target, wildcards.workload)
    ]


rule autotune:
    output:
        record="results/autotune/{operator}/{kernel}/{target}/{workload}.json",
    input:
        timings_of,
    log:
        "results/log/autotune/{operator}/{kernel}/{target}/{workload}.log",
    params:
        code=digest_code("cutesnake.autotune"),
    script:
        "../scripts/choose_variant.py"
