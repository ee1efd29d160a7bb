"""Which builds a run makes itself, and which it shows from `recorded/builds/` (see `model/kept_builds.py`)."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutesnake.model.case_id import CaseId
from cutesnake.model.catalog import load_operator
from cutesnake.model.contract import OWN
from cutesnake.model.kept_builds import (
    ANATOMY,
    CHECK,
    COMPILE,
    FOLDER,
    INSPECT,
    PREDICTION,
    KeptKeys,
    Key,
    read_keys,
    read_records,
)
from cutesnake.model.paths import SCRIPTS
from cutesnake.model.records.inspect import Inspect
from cutesnake.planning.matrix import Build, Plan
from cutesnake.planning.outputs import Recipe
from cutesnake.planning.staleness import WORKFLOW, digest_data, digest_files

# The workflow's code that a kept record depends on: that of its stage, not all that the stage imports.
CODE = {
    COMPILE: ("stages/compile",),
    INSPECT: ("stages/inspect",),
    ANATOMY: ("stages/anatomy",),
    CHECK: ("stages/simulate", "stages/measure/correctness.py"),
    PREDICTION: ("stages/predict",),
}
PAGE = "page.py"  # of anatomy: no record depends on how it is shown
FIRST_CHECKS = 2  # simulated checks of our kernels that a run repeats although their records hold: a sweep's first ones


@dataclass(frozen=True)
class Recipes:
    """Functions per stage that return a record's recipe; None for a build without anatomy."""

    of_build: Callable[[Any], Recipe]
    of_metrics: Callable[[Any], Recipe]
    of_check: Callable[[Any], Recipe]
    of_prediction: Callable[[Any], Recipe]
    pin_of: Callable[[Build], Any]
    of_anatomy: Callable[[Build], Recipe | None] = lambda build: None


@dataclass(frozen=True)
class Selection:
    """Builds that a run makes, and the kept records it shows instead.

    The latter are build -> names of valid records. Of builds that are made, `kept` has checks and predictions alone.
    `checking` and `predicting` have the cases that the run simulates and predicts. `stale` counts kept records of other
    sources.
    """

    live: frozenset[str] = frozenset()
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    checking: frozenset[str] = frozenset()
    predicting: frozenset[str] = frozenset()
    stale: int = 0

    def warning(self) -> str | None:
        """Return one line if kept records are of other sources."""
        if not self.stale:
            return None
        records = "1 record is" if self.stale == 1 else f"{self.stale} records are"
        return f"{FOLDER}: {records} of other sources and not shown; refresh: snakemake --cores all record_builds"


@functools.cache
def _code(stage: str) -> str:
    folders = [SCRIPTS / "cutesnake" / name for name in CODE[stage]]
    files = (file for place in folders for file in ([place] if place.suffix else place.rglob("*.py")))
    return digest_files(file for file in files if file.name != PAGE)


def key(stage: str, recipe: Recipe, pin: Any = None) -> Key:
    """Return the key of a stage's record from its recipe and wheel's pin."""
    code = {name: digest for name, digest in recipe["code"].items() if name != WORKFLOW}
    data = [code, _code(stage), recipe["params"], pin]
    return Key(digest_data(data), dict(recipe["versions"]))


def keys_of(plan: Plan, build: Build, recipes: Recipes) -> dict[str, Key]:
    """Return the keys that the records of a planned build would have now, by name."""
    pin = recipes.pin_of(build)
    result = {COMPILE: key(COMPILE, recipes.of_build(build), pin), INSPECT: key(INSPECT, recipes.of_metrics(build))}
    for name, case in cases_of(plan, build).items():
        stage = name.partition("/")[0]
        recipe = recipes.of_check(case) if stage == CHECK else recipes.of_prediction(case)
        result[name] = key(stage, recipe)
    return result | ({ANATOMY: key(ANATOMY, anatomy)} if (anatomy := recipes.of_anatomy(build)) else {})


def cases_of(plan: Plan, build: Build) -> dict[str, Any]:
    """Return the simulated and predicted cases of a build by the names of their records."""
    stages = ((CHECK, plan.checks_of_builds), (PREDICTION, plan.predictions_of_builds))
    return {f"{stage}/{case.workload.id}": case for stage, cases in stages for case in cases.get(build.key, ())}


def select(plan: Plan, folder: Path, recipes: Recipes, recorded: str = "use", refreshing: bool = False) -> Selection:
    """Choose the builds that a run makes itself.

    These are the default build of each kernel and target, builds that run on a GPU here, and all without a record
    that holds. Of their checks, the first `FIRST_CHECKS` of our kernels are made, and all without a record that holds.
    Of their predictions, those under `predict_always` of the sweep are made, and all of a kernel and target without any
    record; others are shown if they hold. `recorded`: `ignore` makes every build, `only` none. `refreshing` makes
    whatever has no record that holds, as the rule record_builds does. Raises RecordedBuildsError for a damaged file.
    """
    if recorded == "ignore":
        predicting = frozenset(case.key for case in plan.predicted())
        return Selection(frozenset(plan.builds), checking=frozenset(plan.simulated), predicting=predicting)
    only = recorded == "only"
    live, kept, stale = set(), {}, 0
    files: dict[str, dict[str, KeptKeys]] = {}
    defaults = set() if only else defaults_of(plan)
    for name, build in plan.builds.items():
        if build.operator not in files:
            files[build.operator] = read_keys(folder / f"{build.operator}.jsonl")
        there = files[build.operator].get(name)
        runs = not only and plan.running.get(build.id.family)
        if there is None:
            live.add(name)
            continue
        known = _holding(plan, build, there, recipes)
        built = known.get(COMPILE, False)
        if name in defaults or runs:
            live.add(name)
            known = _checks(plan, build, known) | _predictions(plan, build, known) if built else {}
        elif not (built and known.get(INSPECT)) or (refreshing and not _complete(plan, build, known, recipes)):
            live.add(name)
            stale += sum(not holds for one, holds in known.items() if not one.startswith(PREDICTION))
            known = _predictions(plan, build, known) if built else {}
        stale += sum(not holds for holds in known.values())
        if holding := tuple(one for one, holds in known.items() if holds):
            kept[name] = holding
    live = set() if only else live
    places = {CaseId.parse(name).family for kept_builds in files.values() for name in kept_builds}
    predicting = frozenset(
        case.key
        for name in (plan.builds if refreshing else live)
        for case in plan.predictions_of_builds.get(name, ())
        if case.build.id.family not in places
        or (case.build.operator, case.workload.id) in plan.foreseen_always
        or (refreshing and f"{PREDICTION}/{case.workload.id}" not in kept.get(name, ()))
    )
    checking = frozenset(
        case.key
        for name in live
        for case in plan.checks_of_builds.get(name, ())
        if f"{CHECK}/{case.workload.id}" not in kept.get(name, ())
    )
    return Selection(frozenset(live), kept, checking, predicting, stale)


def compared(plan: Plan, build: Build) -> dict[str, Any]:
    """Return the check and the prediction by which toolchains are compared, by stage.

    These are the first check, and the prediction with least FLOPs and bytes, which takes the shortest time.
    """

    def work(case: Any) -> float:
        cost = load_operator(build.operator).cost(case.workload)
        return cost.flops + cost.bytes

    result = {}
    if checks := plan.checks_of_builds.get(build.key):
        result[CHECK] = checks[0]
    if predictions := plan.predictions_of_builds.get(build.key):
        result[PREDICTION] = min(predictions, key=work) if len(predictions) > 1 else predictions[0]
    return result


def standing_for(plan: Plan, build: Build, folder: Path, recipes: Recipes) -> tuple[str, ...]:
    """Return names of records that stand for a build and its `compared` cases.

    Empty if one is missing or of other sources. A build that spills has names of its cases only: source lines of spills
    are in no record.
    """
    file = folder / f"{build.operator}.jsonl"
    there = read_keys(file).get(build.key)
    known = _holding(plan, build, there, recipes) if there else {}
    names = (COMPILE, INSPECT, *(f"{stage}/{case.workload.id}" for stage, case in compared(plan, build).items()))
    if not all(map(known.get, names)):
        return ()
    (metrics,) = read_records(file, {build.key: [INSPECT]}).values()
    assert isinstance(metrics, Inspect)
    spills = any(one.instructions is None or one.instructions.local_memory for one in metrics.functions)
    return tuple(name for name in names if name not in (COMPILE, INSPECT)) if spills else names


def _holding(plan: Plan, build: Build, there: KeptKeys, recipes: Recipes) -> dict[str, bool]:
    """Return which of a build's kept records are of today's sources, by name."""
    now = keys_of(plan, build, recipes)
    return {one: there.keys[one].holds(now[one]) for one in now if one in there.keys}


def _checked(plan: Plan, build: Build, known: Mapping[str, bool]) -> dict[str, bool]:
    """Return which of a build's simulated checks have a record that holds, by name."""
    names = (f"{CHECK}/{case.workload.id}" for case in plan.checks_of_builds.get(build.key, ()))
    return {one: known.get(one, False) for one in names}


def _complete(plan: Plan, build: Build, known: Mapping[str, bool], recipes: Recipes) -> bool:
    """Return whether all checks and the anatomy of a build have a record that holds."""
    described = known.get(ANATOMY, recipes.of_anatomy(build) is None)
    return described and all(_checked(plan, build, known).values())


def _checks(plan: Plan, build: Build, known: Mapping[str, bool]) -> dict[str, bool]:
    """Return valid check records to show for a live build; not our first ones."""
    first = FIRST_CHECKS if plan.sources.get((build.operator, build.kernel), OWN) == OWN else 0
    return {one: True for one, holds in list(_checked(plan, build, known).items())[first:] if holds}


def _predictions(plan: Plan, build: Build, known: Mapping[str, bool]) -> dict[str, bool]:
    """Return the build's records that stand for predictions which are not made again."""
    always = {workload for operator, workload in plan.foreseen_always if operator == build.operator}
    names = {one: one.partition("/") for one in known}
    return {
        one: known[one] for one, (stage, _, workload) in names.items() if stage == PREDICTION and workload not in always
    }


def places_of(folder: Path) -> set[str]:
    """Return the recorded builds as `operator/kernel/target`, which need no compiler here."""
    builds = (name for file in sorted(folder.glob("*.jsonl")) for name in read_keys(file))
    return {CaseId.parse(name).family for name in builds}


def defaults_of(plan: Plan) -> set[str]:
    """Return per kernel and target the build with most checks and predictions."""
    checks, predictions = plan.checks_of_builds, plan.predictions_of_builds
    best: dict[str, Build] = {}

    def rank(build: Build) -> tuple[bool, bool]:
        return build.key in checks, build.key in predictions

    for build in plan.builds.values():
        place = build.id.family
        if place not in best or rank(build) > rank(best[place]):
            best[place] = build
    return {build.key for build in best.values()}
