"""The front page, with the first operator in full, a page for every other one, and pages of each one's kernels."""

PAGE_INPUTS = {
    "arch": "results/arch.json",
    **EVIDENCE,
    "comparisons": of_operator("results/compare/{}.json".format),
    "table": of_operator("results/compare/{}.csv".format),
    "pictures": of_operator("results/plot/{}".format),
    "references": of_operator(references_of),
    "changes": of_operator(changes_of),
    "anatomy": of_operator(anatomy_of),
    "knowledge": KNOWLEDGE if READ else [],
    "verdicts": VERDICT_FILES,
    "templates": TEMPLATES,
}


rule report:
    input:
        **inputs(
            f"results/{FRONT_PAGE}",
            **PAGE_INPUTS,
            summary=SUMMARY,
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
        arguments=page_arguments,
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


use rule report as page with:
    input:
        **inputs(
            "results/report/{operator}.html",
            **PAGE_INPUTS,
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
