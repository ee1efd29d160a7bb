"""Ahead of time, with no GPU: one build per kernel, target and variant."""


def upstream_of(wildcards):
    """The fetched wheel that an upstream kernel comes from; nothing for our own kernels."""
    source = PLAN.sources[wildcards.operator, wildcards.kernel]
    return [] if source == "ours" else [f"results/fetch/{source}/fetched.json"]


def variant_of(wildcards):
    return dict(build_of(wildcards).variant.params)


def baked_code_of(wildcards):
    return digest_baked(wildcards.operator, wildcards.kernel)


rule compile:
    output:
        record="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
    input:
        upstream=upstream_of,
    log:
        "results/log/compile/{operator}/{kernel}/{target}/{variant}.log",
    params:
        variant=variant_of,
        code=baked_code_of,
    script:
        "../scripts/compile.py"
