"""One command to a report: snakemake --cores 1 results/mla_report.html"""

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/captions/workflow.rst"


# Reads config/config.yaml. --configfile and --config override it: lists and single values replace, mappings merge.
include: "workflow/rules/common.smk"
include: "workflow/rules/cases.smk"
include: "workflow/rules/operators.smk"
include: "workflow/rules/files.smk"
include: "workflow/rules/toolchain_products.smk"
include: "workflow/rules/inputs.smk"


terminal.report_page = f"results/{FRONT_PAGE}"


rule all:
    default_target: True
    input:
        f"results/{FRONT_PAGE}",


include: "workflow/rules/arch.smk"
include: "workflow/rules/machine.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/compile.smk"
include: "workflow/rules/anatomy.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/correctness.smk"
include: "workflow/rules/timing.smk"
include: "workflow/rules/batch.smk"
include: "workflow/rules/autotune.smk"
include: "workflow/rules/nsys.smk"
include: "workflow/rules/ncu.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/change.smk"
include: "workflow/rules/toolchains.smk"
include: "workflow/rules/overview.smk"
include: "workflow/rules/operations.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/learn.smk"
include: "workflow/rules/keep.smk"
include: "workflow/rules/site.smk"
include: "workflow/rules/clean.smk"
include: "workflow/rules/products.smk"


# Where jobs go to other nodes, these stay with the main process: they need a network, or take less than a job's start.
localrules:
    all,
    arch,
    plan,
    fetch,
    autotune,
    clean,
    change,
    unchanged,
    toolchain_environment,
    toolchains,
    gate,
    overview,
    report,
    front_link,
    keep,
    site,
    learn,
    learn_path_a,
    learn_path_b,
    learn_path_c,
    exercises,
    learn_break,
    machines,
    compiled,
    checked,
    measured,


# A dry run and every look at the graph go without it, and so do the jobs that an executor starts.
onstart:
    try:
        folder.claim(PLANNED_AFTER)
        if moved := folder.bring_back_from_the_future(snakemake_internals.files_of_jobs(workflow)):
            logger.warning(
                f"dated again, since a clock was set back or another one is ahead: {moved} files of the future"
            )
        hand_on_plan()
        take_turns()
        serve_jobs()
        if snakemake_internals.is_local(workflow):
            snakemake_internals.look_when_jobs_end(workflow)
    except AT_START as error:
        raise WorkflowError(str(error)) from None
    if told := snakemake_internals.untried_version():
        logger.warning(told)


# Not where there was nothing to do. A cell that failed is a row of the report, and ends no run.
onsuccess:
    made = [path for path in COMPARISONS if path in files_of_run()]
    if (made[:1] == COMPARISONS[:1] or len(made) == 1) and (told := failures.verdict(made[0])):
        logger.info(told, extra={"end": "verdict"})
    tell_failures()


onerror:
    tell_failures()


rule compiled:
    input:
        [build.path("compile") for build in EVERY_BUILD],


rule checked:
    input:
        files_of([*CHECKED, *(case.id.path("correctness") for case in PLAN.simulated.values())]),


rule measured:
    input:
        files_of(MEASURED),
