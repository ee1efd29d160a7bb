"""Hardware counters of one call, under Nsight Compute."""


use rule correctness as ncu with:
    input:
        **inputs(
            "results/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
            checked=checked_first,
        ),
    output:
        record="results/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    params:
        task=(None, "ncu", "cutesnake.stages.measure.stage:run_case"),
        arguments=measuring("ncu"),
        made_from=made_from,
