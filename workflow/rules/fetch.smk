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
        upstream=lambda wildcards: str(PIN_FILES.get(wildcards.package, (UPSTREAM,))[0]),
        made_from=made_from,
    script:
        "../scripts/fetch.py"
