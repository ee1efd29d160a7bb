"""The timeline of a few lone calls, under Nsight Systems."""


use rule timing as nsys with:
    input:
        **inputs(
            "results/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
            checked=checked_first,
            timed=timed_first,
        ),
    output:
        record="results/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    params:
        task=(None, "nsys", "cutesnake.stages.measure.stage:run_case"),
        arguments=measuring("nsys"),
        made_from=made_from,
