"""What is asked of an operator, what of it can be built and run here, and how fast each workload can be at best."""


rule plan:
    input:
        **inputs(
            "results/plan/{operator}.json",
            devices=DEVICES,
        ),
    output:
        record="results/plan/{operator}.json",
        roofline="results/inspect/{operator}/roofline.json",
    log:
        "results/log/plan/{operator}.log",
    priority: 2 * BUILDS_FIRST
    conda:
        "../../envs/environment.yaml"
    params:
        task=("host", "plan", "cutesnake.stages.inspect.roofline:plan_and_roofline"),
        arguments=lambda wildcards, input, output: {
            "plan": plan_of(wildcards),
            "output": output.record,
            "machine": CARDS,
            "devices": input.devices,
            "rooflines": output.roofline,
            "recorded": CARDS_OF_OTHERS,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
