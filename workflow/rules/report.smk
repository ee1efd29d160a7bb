"""The front page, with the first operator in full, a page for every other one, and pages of each one's kernels."""


rule report:
    input:
        state=state(f"results/{FRONT_PAGE}"),
        arch=old("results/arch.json"),
        plan=old(f"results/plan/{FRONT}.json"),
        records=old(records_of(FRONT)),
        roofline=old(f"results/inspect/{FRONT}/roofline.json"),
        recorded=old(recorded_of(FRONT)),
        comparisons=old(COMPARISONS),
        table=old(f"results/compare/{FRONT}.csv"),
        overview=old("results/overview"),
        pictures=old(f"results/plot/{FRONT}"),
        pages=old([f"results/report/{operator}.html" for operator in OTHERS]),
        references=old(references_of(FRONT)),
        changes=old(CHANGES),
        anatomy=old(anatomy_of(FRONT)),
        knowledge=old(KNOWLEDGE if READ else []),
        operations=old(OPERATIONS[:1]),
        templates=old(TEMPLATES),
    output:
        **anatomy_pages(FRONT),
        page=report(
            f"results/{FRONT_PAGE}",
            caption="../report/captions/front.rst",
            category="Overview",
            labels={"page": "front page"},
        ),
    log:
        "results/log/report.log",
    conda:
        "../../envs/environment.yaml"
    params:
        front=FRONT_PAGE,
        upstream=UPSTREAM,
        sweep=asdict(EXPERIMENT.sweeps[FRONT]),
        made_from=made_from,
    script:
        "../scripts/report.py"


rule page:
    input:
        state=state("results/report/{operator}.html"),
        arch=old("results/arch.json"),
        plan=old("results/plan/{operator}.json"),
        records=old(lambda wildcards: records_of(wildcards.operator)),
        roofline=old("results/inspect/{operator}/roofline.json"),
        recorded=old(lambda wildcards: recorded_of(wildcards.operator)),
        comparisons=old("results/compare/{operator}.json"),
        table=old("results/compare/{operator}.csv"),
        pictures=old("results/plot/{operator}"),
        references=old(lambda wildcards: references_of(wildcards.operator)),
        changes=old(lambda wildcards: changes_of(wildcards.operator)),
        anatomy=old(lambda wildcards: anatomy_of(wildcards.operator)),
        knowledge=old(KNOWLEDGE if READ else []),
        templates=old(TEMPLATES),
    output:
        **anatomy_pages("{operator}"),
        page=report(
            "results/report/{operator}.html",
            caption="../report/captions/page.rst",
            category="Pages",
            labels={"operator": "{operator}"},
        ),
    log:
        "results/log/report/{operator}.log",
    wildcard_constraints:
        operator=rf"(?!(operations|{FRONT})\b)\w+",  # these have rules of their own
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        front=FRONT_PAGE,
        upstream=UPSTREAM,
        sweep=lambda wildcards: asdict(EXPERIMENT.sweeps[wildcards.operator]),
        made_from=made_from,
    script:
        "../scripts/report.py"
