"""How each kernel is made: roles of its warps, pipelines, budgets and patterns, from its code and a simulated run."""


rule anatomy:
    input:
        lambda wildcards: [path for path in BUILD_RECORDS if Path(path).parts[2] == wildcards.operator],
    output:
        folder=directory("results/anatomy/{operator}"),
    log:
        "results/log/anatomy/{operator}.log",
    priority: 2 * BUILDS_FIRST
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        builds=anatomy_builds_of,
        code=anatomy_code_of,
    script:
        "../scripts/anatomy.py"


rule anatomy_pages:
    input:
        records="results/anatomy/{operator}",
        recorded=lambda wildcards: recorded_of(wildcards.operator),
        knowledge=KNOWLEDGE,
        templates=TEMPLATES,
    output:
        folder=report(
            directory("results/report/anatomy/{operator}"),
            patterns=["{kernel}.html"],
            caption="../report/captions/anatomy.rst",
            category="Anatomy",
            subcategory="{operator}",
            labels={"kernel": "{kernel}"},
        ),
    log:
        "results/log/anatomy_pages/{operator}.log",
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        front=FRONT_PAGE,
        page=lambda wildcards: operator_page(wildcards.operator),
        code=digest_code("anatomy_pages.py"),
    script:
        "../scripts/anatomy_pages.py"
