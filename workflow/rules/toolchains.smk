"""Compilers compared: an environment each, kernels compiled with each, a page, and a gate: snakemake --cores 2 gate"""


rule toolchain_environment:
    input:
        **inputs("results/toolchains/{toolchain}/environment.json"),
    output:
        record="results/toolchains/{toolchain}/environment.json",
    log:
        "results/log/toolchains/{toolchain}/environment.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=(None, "toolchain", "cutesnake.stages.toolchain.environment:install"),
        arguments=lambda wildcards, input, output: {
            "entry": planned(TOOLCHAINS, wildcards.toolchain).file,
            "output": output.record,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule toolchain:
    input:
        **inputs(
            "results/toolchains/{toolchain}/{operator}/{kernel}/{target}.json",
            environment=lambda wildcards: environment_of(wildcards.toolchain),
            upstream=toolchain_upstream,
        ),
    output:
        record="results/toolchains/{toolchain}/{operator}/{kernel}/{target}.json",
    log:
        "results/log/toolchains/{toolchain}/{operator}/{kernel}/{target}.log",
    group:
        grouped("builds")
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=gpus_of_toolchain,
        slurm_partition=asked_of_slurm("partition"),
        constraint=asked_of_slurm("constraint"),
    params:
        asked=asked_of_toolchain,
        made_from=made_from,
    script:
        "../scripts/toolchain.py"


rule toolchains:
    input:
        **inputs(
            (TOOLCHAIN_MATRIX, TOOLCHAIN_PAGE, *TOOLCHAIN_PAGES),
            records=list(TOOLCHAIN_BUILDS),
            environments=ENVIRONMENTS,
            templates=TEMPLATES,
        ),
    output:
        record=TOOLCHAIN_MATRIX,
        operators=TOOLCHAIN_PAGES,
        page=report(  # the last one: what the terminal names
            TOOLCHAIN_PAGE,
            caption="../report/captions/toolchains.rst",
            category="Overview",
            labels={"page": "toolchains"},
        ),
    log:
        "results/log/toolchains.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=("pages", "toolchains", "cutesnake.report.toolchains:write_files"),
        arguments=lambda wildcards, input, output: {
            "records": list(TOOLCHAIN_BUILDS),
            "environments": ENVIRONMENTS,
            "toolchains": list(TOOLCHAINS),
            "limits": gate_limits(),
            "front": FRONT_PAGE,
            "output": output.record,
            "page": output.page,
            "pages": TOOLCHAIN_PAGES,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule gate:
    input:
        matrix=TOOLCHAIN_MATRIX if TOOLCHAINS else [],
    log:
        "results/log/gate.log",
    conda:
        "../../envs/environment.yaml"
    params:
        toolchains=list(TOOLCHAINS),
    script:
        "../scripts/gate.py"
