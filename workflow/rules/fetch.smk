"""Upstream kernels: pinned wheels, sha256-checked, unpacked in part."""


rule fetch:
    input:
        upstream=str(PROJECT / "kernels/upstream.yaml"),
    output:
        record="results/fetch/{package}/fetched.json",
    log:
        "results/log/fetch/{package}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("fetch.py"),
    script:
        "../scripts/fetch.py"
