"""What is asked of an operator, what of it can be built and run here, and how fast each workload can be at best."""


rule plan:
    input:
        devices=DEVICES,
    output:
        record="results/plan/{operator}.json",
        roofline="results/inspect/{operator}/roofline.json",
    log:
        "results/log/plan/{operator}.log",
    priority: 2 * BUILDS_FIRST
    conda:
        "../../envs/environment.yaml"
    params:
        plan=plan_of,
        machine={"devices": MACHINE.as_dict()["devices"], "selected": MACHINE.selected},
        recorded=[*recorded_devices(), *cards_of_nodes()],
        code=plan_code_of,
    script:
        "../scripts/plan.py"
