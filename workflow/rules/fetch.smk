"""Upstream kernels: pinned wheels, sha256-checked, unpacked in part."""


rule fetch:
    input:
        **inputs(
            "results/fetch/{package}/fetched.json",
        ),
    output:
        record="results/fetch/{package}/fetched.json",
    log:
        "results/log/fetch/{package}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=(None, "fetch", "cutesnake.stages.fetch:fetch"),
        arguments=lambda wildcards, input, output: {
            "package": wildcards.package,
            "folder": str(Path(output.record).parent),
            "upstream": str(PIN_FILES.get(wildcards.package, (UPSTREAM,))[0]),
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
