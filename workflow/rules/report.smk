"""The front page, with the first operator in full, a page for every other one, and pages of each one's kernels."""


rule report:
    input:
        **inputs(
            f"results/{FRONT_PAGE}",
            arch="results/arch.json",
            plan=f"results/plan/{FRONT}.json",
            records=lambda wildcards: records_of(FRONT),
            roofline=f"results/inspect/{FRONT}/roofline.json",
            recorded=lambda wildcards: recorded_of(FRONT),
            kept=lambda wildcards: kept_of(FRONT),
            comparisons=f"results/compare/{FRONT}.json",
            table=f"results/compare/{FRONT}.csv",
            pictures=f"results/plot/{FRONT}",
            summary=SUMMARY,
            references=references_of(FRONT),
            changes=changes_of(FRONT),
            anatomy=anatomy_of(FRONT),
            knowledge=KNOWLEDGE if READ else [],
            verdicts=VERDICT_FILES,
            templates=TEMPLATES,
        ),
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
        task=("pages", "report", "cutesnake.report.files:report_files"),
        arguments=lambda wildcards, input, output: {
            "files": {**dict(input.items()), "upstream": UPSTREAM},
            "config": config,
            "sweep": asdict(EXPERIMENT.sweeps[FRONT]),
            "front": FRONT_PAGE,
            "output": output.page,
            "placeholders": LINKED,
            "anatomy": output.get("anatomy"),
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


# The first operator's page is the front page. Its file that is named as the others' are leads there.
rule front_link:
    input:
        f"results/{FRONT_PAGE}",
    output:
        f"results/report/{FRONT}.html",
    log:
        f"results/log/report/{FRONT}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        link=f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url=../{FRONT_PAGE}">'
        f'<title>{FRONT}</title><a href="../{FRONT_PAGE}">{FRONT}</a>',
    shell:
        "echo '<!doctype html>{params.link}' > {output} 2> {log}"


rule page:
    input:
        **inputs(
            "results/report/{operator}.html",
            arch="results/arch.json",
            plan="results/plan/{operator}.json",
            records=lambda wildcards: records_of(wildcards.operator),
            roofline="results/inspect/{operator}/roofline.json",
            recorded=lambda wildcards: recorded_of(wildcards.operator),
            kept=lambda wildcards: kept_of(wildcards.operator),
            comparisons="results/compare/{operator}.json",
            table="results/compare/{operator}.csv",
            pictures="results/plot/{operator}",
            references=lambda wildcards: references_of(wildcards.operator),
            changes=lambda wildcards: changes_of(wildcards.operator),
            anatomy=lambda wildcards: anatomy_of(wildcards.operator),
            knowledge=KNOWLEDGE if READ else [],
            verdicts=VERDICT_FILES,
            templates=TEMPLATES,
        ),
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
        operator=rf"(?!(operations|toolchains|{FRONT})\b)\w+",  # these have rules of their own
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        task=("pages", "report", "cutesnake.report.files:report_files"),
        arguments=lambda wildcards, input, output: {
            "files": {**dict(input.items()), "upstream": UPSTREAM},
            "config": config,
            "sweep": asdict(EXPERIMENT.sweeps[wildcards.operator]),
            "front": FRONT_PAGE,
            "output": output.page,
            "anatomy": output.get("anatomy"),
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule catalogue_page:
    input:
        **inputs(
            f"results/{CATALOGUE}",
            arch="results/arch.json",
            comparisons=COMPARISONS,
            overview="results/overview",
            changes=CHANGES,
            templates=TEMPLATES,
        ),
    output:
        page=report(
            f"results/{CATALOGUE}",
            caption="../report/captions/front.rst",
            category="Overview",
            labels={"page": "catalogue"},
        ),
    log:
        "results/log/catalogue.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=("pages", "catalogue", "cutesnake.report.catalogue:catalogue_files"),
        arguments=lambda wildcards, input, output: {
            "files": dict(input.items()),
            "front": FRONT_PAGE,
            "output": output.page,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule catalogue:
    input:
        f"results/{FRONT_PAGE}",
        f"results/{CATALOGUE}",
        [f"results/report/{operator}.html" for operator in OTHERS],
        OPERATIONS[:1],
