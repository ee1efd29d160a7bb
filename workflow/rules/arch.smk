"""What this machine is and can do."""


rule arch:
    output:
        record="results/arch.json",
    log:
        "results/log/arch.log",
    priority: 2 * BUILDS_FIRST
    conda:
        "../../envs/environment.yaml"
    params:
        plan=PLAN.as_dict(),
        machine=MACHINE.as_dict(),
        code=digest_code("arch.py"),
    script:
        "../scripts/arch.py"
