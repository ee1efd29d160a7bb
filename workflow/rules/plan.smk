"""What is asked of an operator, and what of it can be built and run here."""


rule plan:
    output:
        record="results/plan/{operator}.json",
    log:
        "results/log/plan/{operator}.log",
    priority: 2 * BUILDS_FIRST
    conda:
        "../../envs/environment.yaml"
    params:
        plan=plan_of,
        code=digest_code("plan.py"),
    script:
        "../scripts/plan.py"
