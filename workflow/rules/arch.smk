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
        task=(None, "arch", "cutesnake.planning.arch_record:write_arch"),
        arguments=lambda wildcards, input, output: {
            "data": MACHINE.as_dict(),
            "plan": PLAN.as_dict(),
            "output": output.record,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
