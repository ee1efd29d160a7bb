"""The files that this run makes."""

import functools
import os
import sys
from pathlib import Path

from cutesnake.model.catalog import load_kernel, users_own
from cutesnake.model.contract import INSTALLED, OWN
from cutesnake.model import kept_builds
from cutesnake.model.dsls import COMPARED
from cutesnake.report.learn import goals
from cutesnake.planning import batches

if EXPERIMENT.recorded == "only":
    PLAN.running.clear()  # nothing runs on a GPU without its build
ON_CARDS = {stage: list(PLAN.cases_to_run(stage)) for stage in ("correctness", "timing")}  # what batches are made of
CHOICES = PLAN.choices()


def records(stage, cases):
    """Stage, case and path of the records of builds or cases."""
    return [(stage, case, case.path(stage)) for case in cases]


MADE_TIMED = records("timing", (case.id for case in ON_CARDS["timing"]))
TIMED = [path for _, _, path in MADE_TIMED]
HERE_TIMED = frozenset(TIMED)  # asked for once per prediction
DESCRIBES = "anatomy" in EXPERIMENT.stages
RECIPES = recorded_builds.Recipes(
    of_build=lambda build: recipe_of_build(names_of(build.id)),
    of_metrics=lambda build: recipe_of_figures(names_of(build.id)),
    of_check=lambda case: recipe_of_check(case),
    of_prediction=lambda case: recipe_of_prediction(case),
    pin_of=lambda build: PINS.get(PLAN.sources[build.operator, build.kernel]),
    of_anatomy=lambda build: recipe_of_anatomy(build) if DESCRIBES and has_code(build) else None,
)
KEPT_FOLDER = PROJECT / kept_builds.FOLDER
# A run makes the builds that show the chain on this machine, and whatever has no record that holds.
if snakemake_internals.is_main(workflow):
    try:
        SELECTION = recorded_builds.select(
            PLAN,
            KEPT_FOLDER,
            RECIPES,
            EXPERIMENT.recorded,
            # so that comparisons, which are written too, wait for all that it makes
            refreshing=snakemake_internals.asked_for("record_builds", "results/recorded_builds.txt"),
        )
    except kept_builds.RecordedBuildsError as error:
        sys.exit(str(error))
    if SELECTION.warning():
        logger.info(SELECTION.warning())
else:
    SELECTION = recorded_builds.Selection(
        frozenset(PLAN.live), PLAN.kept, frozenset(PLAN.checking), frozenset(PLAN.predicting)
    )
PLAN.live, PLAN.kept = sorted(SELECTION.live), dict(SELECTION.kept)
PLAN.checking, PLAN.predicting = sorted(SELECTION.checking), sorted(SELECTION.predicting)
EVERY_BUILD = [build.id for build in PLAN.builds.values()]
BUILDS = [build for build in EVERY_BUILD if build.key in SELECTION.live]
INSPECTED = BUILDS if "inspect" in EXPERIMENT.stages else []
FIGURES = {"figures": "results/inspect/{operator}/{kernel}/{target}/{variant}.json"} if INSPECTED else {}
MADE_OF_BUILDS = [*records("compile", BUILDS), *records("inspect", INSPECTED)]
MADE_SIMULATED = records("correctness", (case.id for case in PLAN.simulated.values() if case.key in SELECTION.checking))
MADE_CHECKED = [*records("correctness", (case.id for case in ON_CARDS["correctness"])), *MADE_SIMULATED]
MADE_TUNED = [("autotune", cases[0].id, f"results/autotune/{key}.json") for key, cases in CHOICES.items()]
MADE_PROFILED = [made for stage in ("nsys", "ncu") for made in records(stage, (c.id for c in PLAN.cases_to_run(stage)))]
MADE_PREDICTED = records("predict", (case.id for case in PLAN.predicted() if case.key in SELECTION.predicting))
MADE = [*MADE_OF_BUILDS, *MADE_CHECKED, *MADE_TIMED, *MADE_TUNED, *MADE_PROFILED, *MADE_PREDICTED]


def paths_of(made):
    return [path for _, _, path in made]


BUILD_RECORDS = [build.path("compile") for build in BUILDS]
SIMULATED, CHECKED, PREDICTED = map(paths_of, (MADE_SIMULATED, MADE_CHECKED, MADE_PREDICTED))
MEASURED = paths_of([*MADE_CHECKED, *MADE_TIMED, *MADE_TUNED, *MADE_PROFILED])
CASES_PER_JOB = batches.cases_per_job(EXPERIMENT.cases_per_job, sum(map(len, ON_CARDS.values())))
BATCHES = {
    batch.key: batch
    for stage, cases in ON_CARDS.items()
    if CASES_PER_JOB > 1
    for batch in batches.make_batches(stage, cases, CASES_PER_JOB)
}
SIMULATED_BATCHES = {batch.key: batch for batch in batches.make_simulated(PLAN.simulated.values(), SELECTION.checking)}
BATCH_OF = {path: batch.path for batch in (BATCHES | SIMULATED_BATCHES).values() for path in batch.records()}


def files_of(records):
    """What Snakemake makes for records: themselves, or the batches that they are in, each once."""
    return list(dict.fromkeys(BATCH_OF.get(path, path) for path in records))


RECORDS = {operator: {} for operator in PLAN.workloads}  # operator -> its records, or the batches that they are in
for _, case, path in MADE:
    RECORDS[case.operator][BATCH_OF.get(path, path)] = None
RECORDS = {operator: list(paths) for operator, paths in RECORDS.items()}
COMPARISONS = [f"results/compare/{operator}.json" for operator in PLAN.workloads]


@functools.cache
def kept_names():
    """Build -> the names under which its records are kept, and where they lie; without predictions that hold."""
    return {
        key: {"compile": build.id.path("compile"), "inspect": build.id.path("inspect")}
        | ({kept_builds.ANATOMY: build.id.path(kept_builds.ANATOMY)} if DESCRIBES and has_code(build) else {})
        | {
            name: case.id.path(name.partition("/")[0])
            for name, case in recorded_builds.cases_of(PLAN, build).items()
            if not (name.startswith(kept_builds.PREDICTION) and name in SELECTION.kept.get(key, ()))
        }
        for key, build in PLAN.builds.items()
    }


def kept_keys():
    """Build -> name of a record -> [digest, versions], as `kept_builds.Key` has them."""
    return {
        key: {name: [now.digest, now.versions] for name, now in keys.items() if name in kept_names()[key]}
        for key, keys in ((key, recorded_builds.keys_of(PLAN, build, RECIPES)) for key, build in PLAN.builds.items())
    }


def change_of(operator):
    return f"results/change/{operator}.json"


CHANGES = [change_of(operator) for operator in PLAN.workloads if BASELINE]
try:
    GOALS_FILE = str(PROJECT / "config/learning.yaml")
    GOALS = goals.read_goals(Path(ROOT, "config/learning.yaml"))
except goals.GoalError as error:
    sys.exit(str(error))
EXAMPLES = "results/fetch/flashinfer-python/fetched.json"  # the wheel whose kernels exercises change


def exercise_page(name):
    return f"results/learn/exercises/{name}.html"


# Kernels in the two DSLs in folders of the user's own, as operator/kernel.
OWN_KERNELS = sorted(
    {
        f"{operator}/{kernel}"
        for operator, kernel in {(build.operator, build.kernel) for build in EVERY_BUILD}
        if load_kernel(operator, kernel).DSL in COMPARED and users_own(operator, kernel)
    }
)
# Anatomy and operations are made from compiled code: without a build, only records are shown.
COMPILES = bool(PLAN.live) or not PLAN.builds
READ = [operator for operator in PLAN.workloads if DESCRIBES]  # with pages of anatomy
CATALOGUE = "catalogue.html"
SUMMARY = [path for path in [str(KEPT_FOLDER / "operators.json")] if os.path.exists(path)]
WHOLE = len(PLAN.workloads) == len(PLAN.operators)  # whether all operators are planned: see planning/requested.py
OPERATIONS = ["results/report/operations.html", "results/operations.json"] * (
    "operations" in EXPERIMENT.stages and COMPILES
)
FRONT, *OTHERS = PLAN.operators  # the operator that the front page shows in full, and those with a page of their own
# Pages that the front page links to, which may not be made yet -> the target that makes them.
LINKED = {f"report/{operator}.html": f"results/report/{operator}.html" for operator in OTHERS} | dict.fromkeys(
    ("report/operations.html", CATALOGUE), "catalogue"
)
