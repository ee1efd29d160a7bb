"""Upstream kernels: pinned wheels, sha256-checked, unpacked in part."""


rule fetch:
    output:
        record="results/fetch/{package}/fetched.json",
    input:
        upstream=f"{workflow.basedir}/kernels/upstream.yaml",
    log:
        "results/log/fetch/{package}.log",
    params:
        code=digest_code("cutesnake.fetch"),
    retries: 2
    script:
        "../scripts/fetch.py"
