"""What this machine is and can do."""


rule arch:
    input:
        **inputs(
            "results/arch.json",
        ),
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
        made_from=made_from,
    script:
        "../scripts/arch.py"
