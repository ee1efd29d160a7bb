"""Upstream kernels: pinned wheels, sha256-checked, unpacked in part."""


rule fetch:
    input:
        upstream=f"{workflow.basedir}/kernels/upstream.yaml",
    output:
        record="results/fetch/{package}/fetched.json",
    log:
        "results/log/fetch/{package}.log",
    retries: 2
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("cutesnake.fetch"),
    script:
        "../scripts/fetch.py"
