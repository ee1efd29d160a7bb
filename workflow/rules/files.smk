"""The files that this run makes."""

import sys
from pathlib import Path

from cutesnake.model.catalog import load_kernel, users_own
from cutesnake.model.contract import INSTALLED, OURS
from cutesnake.model.dsls import COMPARED
from cutesnake.report.learn import goals as learning
from cutesnake.planning import batches

BUILDS = [build.id for build in PLAN.builds.values()]
INSPECTED = BUILDS if "inspect" in EXPERIMENT.stages else []
FIGURES = {"figures": "results/inspect/{operator}/{kernel}/{target}/{variant}.json"} if INSPECTED else {}
ON_CARDS = {stage: list(PLAN.run_here(stage)) for stage in ("correctness", "timing")}  # what batches are made of
CHOICES = PLAN.choices()


def records(stage, cases):
    """Stage, case and path of the records of builds or cases."""
    return [(stage, case, case.path(stage)) for case in cases]


MADE_OF_BUILDS = [*records("compile", BUILDS), *records("inspect", INSPECTED)]
MADE_SIMULATED = records("correctness", (case.id for case in PLAN.simulated.values()))
MADE_CHECKED = [*records("correctness", (case.id for case in ON_CARDS["correctness"])), *MADE_SIMULATED]
MADE_TIMED = records("timing", (case.id for case in ON_CARDS["timing"]))
MADE_TUNED = [("autotune", cases[0].id, f"results/autotune/{key}.json") for key, cases in CHOICES.items()]
MADE_PROFILED = [made for stage in ("nsys", "ncu") for made in records(stage, (c.id for c in PLAN.run_here(stage)))]
MADE_PREDICTED = records("predict", (case.id for case in PLAN.predicted()))
MADE = [*MADE_OF_BUILDS, *MADE_CHECKED, *MADE_TIMED, *MADE_TUNED, *MADE_PROFILED, *MADE_PREDICTED]


def paths_of(made):
    return [path for _, _, path in made]


BUILD_RECORDS = [build.path("compile") for build in BUILDS]
SIMULATED, CHECKED, TIMED, PREDICTED = map(paths_of, (MADE_SIMULATED, MADE_CHECKED, MADE_TIMED, MADE_PREDICTED))
HERE_TIMED = frozenset(TIMED)  # asked for once per prediction
MEASURED = paths_of([*MADE_CHECKED, *MADE_TIMED, *MADE_TUNED, *MADE_PROFILED])
CASES_PER_JOB = batches.cases_per_job(EXPERIMENT.cases_per_job, sum(map(len, ON_CARDS.values())))
BATCHES = {
    batch.key: batch
    for stage, cases in ON_CARDS.items()
    if CASES_PER_JOB > 1
    for batch in batches.make_batches(stage, cases, CASES_PER_JOB)
}
SIMULATED_BATCHES = {batch.key: batch for batch in batches.make_simulated(PLAN.simulated.values())}
BATCH_OF = {path: batch.path for batch in (BATCHES | SIMULATED_BATCHES).values() for path in batch.records()}


def files_of(records):
    """What Snakemake makes for records: themselves, or the batches that they are in, each once."""
    return list(dict.fromkeys(BATCH_OF.get(path, path) for path in records))


RECORDS = {operator: {} for operator in PLAN.workloads}  # operator -> its records, or the batches that they are in
for _, case, path in MADE:
    RECORDS[case.operator][BATCH_OF.get(path, path)] = None
RECORDS = {operator: list(paths) for operator, paths in RECORDS.items()}
COMPARISONS = [f"results/compare/{operator}.json" for operator in PLAN.workloads]


def change_of(operator):
    return f"results/change/{operator}.json"


CHANGES = [change_of(operator) for operator in PLAN.workloads if BASELINE]
try:
    GOALS_FILE = str(PROJECT / "config/learning.yaml")
    GOALS = learning.read_goals(Path(workflow.basedir, "config/learning.yaml"))
except learning.GoalError as error:
    sys.exit(str(error))
# Kernels in the two DSLs in folders of the user's own, as operator/kernel.
OWN_KERNELS = sorted(
    {
        f"{operator}/{kernel}"
        for operator, kernel in {(build.operator, build.kernel) for build in PLAN.builds.values()}
        if load_kernel(operator, kernel).DSL in COMPARED and users_own(operator, kernel)
    }
)
READ = [operator for operator in PLAN.workloads if "anatomy" in EXPERIMENT.stages]  # operators with pages of anatomy
OPERATIONS = ["results/report/operations.html", "results/operations.json"] * ("operations" in EXPERIMENT.stages)
FRONT_PAGE = "mla_report.html"
FRONT, *OTHERS = PLAN.workloads  # the operator that the front page shows in full, and those with a page of their own
