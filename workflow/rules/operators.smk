"""What rules ask about an operator, or about several: records, pages, lessons."""

import functools
import json
import os
from dataclasses import asdict
from pathlib import Path

from cutesnake.model.catalog import folders, make_workload
from cutesnake.analysis.evidence import recorded_set
from cutesnake.report.learn import goals
from cutesnake.planning import problems
from cutesnake.planning.matrix import PlannedCase
from cutesnake.planning.staleness import digest_files
from cutesnake.stages.predict import validated


def validation():
    """The files of predictions that were held against cards, which the bands of new ones follow from."""
    return validated.files(PROJECT / "workflow/validation") if any(PLAN.predicted()) else []


def validation_of(wildcards):
    """The same where something of an operator is predicted: its page shows how good the predictions are."""
    predicted = any(case.build.operator == wildcards.operator for case in PLAN.predicted())
    return [str(path) for path in validation()] if predicted else []


NOT_BUILT = f"not built: no current record in {kept_builds.FOLDER}/, and compile.recorded is `only`"


def plan_of(wildcards):
    planned(PLAN.workloads, wildcards.operator)
    return plan_of_operator(wildcards.operator)


@functools.cache
def plan_of_operator(operator):
    kept = {key: list(names) for key, names in PLAN.kept.items() if PLAN.builds[key].operator == operator}
    only = {"not_built": NOT_BUILT} if EXPERIMENT.recorded == "only" else {}
    return PLAN.of(operator) | {"recorded_builds": kept} | only


def records_of(operator):
    """What this machine has found out about an operator: records of builds, static figures and measurements."""
    return planned(RECORDS, operator)


def recorded_devices():
    """The driver's names of the cards that have a recorded set."""
    return sorted(json.loads(path.read_text())["device"] for path in Path(PROJECT, "recorded").glob("*/set.json"))


def cards_of_nodes():
    """The driver's names of the cards that classes of nodes have."""
    return sorted({place.device.name for name, place in PLAN.places.items() if name and place.device})


@functools.cache
def recorded_of(operator):
    """The committed measurements of an operator."""
    sets = sorted(path.parent for path in Path(PROJECT, "recorded").glob("*/set.json"))
    return [str(one / name) for one in sets for name in recorded_set.files_of(os.listdir(one), operator)]


def kept_of(operator):
    """The file with kept builds of an operator, where some of them are shown."""
    kept = any(PLAN.builds[key].operator == operator for key in PLAN.kept)
    return [str(KEPT_FOLDER / f"{operator}.jsonl")] if kept else []


CARDS = {"devices": MACHINE.as_dict()["devices"], "selected": MACHINE.selected}
CARDS_OF_OTHERS = [*recorded_devices(), *cards_of_nodes()]


def changes_of(operator):
    """The record of what changed of an operator, where there is a baseline."""
    return [path for path in CHANGES if path == change_of(operator)]


def baseline_digest_of(wildcards):
    return baseline.digest(BASELINE, wildcards.operator) if BASELINE else None


def references_of(operator):
    """Files of times that an operator's peers took elsewhere, where it has any."""
    files = (folder / "reference_times.yaml" for folder in folders(operator))
    return [os.path.relpath(path) for path in files if path.exists()]


def builds_of(operator):
    """The builds of an operator that this run makes itself."""
    return [PLAN.builds[key] for key in PLAN.live if PLAN.builds[key].operator == operator]


def has_code(build):
    """Whether a build is compiled code of its own: PyTorch's have none."""
    return load_kernel(build.operator, build.kernel).DSL in COMPARED


def anatomy_builds_of(wildcards):
    """Builds of an operator -> how they are watched for their anatomy."""
    return watched(wildcards.operator)


def watched(operator):
    return {build.key: watched_build(build.key) for build in builds_of(operator)}


@functools.cache
def watched_build(key):
    """How a build is watched, whatever else a run makes: its record is kept. The default build may be run instead."""
    build = PLAN.builds[key]
    alone = problems.of_builds([build], *swept(build.operator))
    default = default_builds()[build.id.family]
    if default == key or (alone[key]["workloads"] and not alone[key]["in_part"]):
        return alone[key]
    return problems.of_builds([PLAN.builds[default], build], *swept(build.operator))[key]


@functools.cache
def swept(operator):
    """Small workloads of an operator's sweep, and all."""
    sweep = EXPERIMENT.sweeps[operator]
    return sweep.small(), sweep.workloads()


@functools.cache
def default_builds():
    """The build of each kernel and target that a run makes first."""
    return {PLAN.builds[key].id.family: key for key in recorded_builds.defaults_of(PLAN)}


def recipe_of_anatomy(build):
    """What the anatomy of a build depends on besides files."""
    code = code_of("job.py", "cutesnake.stages.anatomy.folder", f"kernels.{build.operator}.{build.kernel}")
    return recipe(code, TORCH, build=watched_build(build.key))


def lesson_builds(lesson):
    """Builds that a learner's page shows: one per kernel, in reading order."""
    kernels = [*goals.kernels_of(GOALS, lesson), *(OWN_KERNELS if lesson == goals.WHOLE else [])]
    found = (goals.chosen_build(PLAN.builds, kernel) for kernel in kernels)
    return [PLAN.builds[key] for key in found if key is not None]


@functools.cache
def small_problems(key):
    """The small problems that a build is run on."""
    build = PLAN.builds[key]
    small = EXPERIMENT.sweeps[build.operator].small()
    return problems.chosen(build.operator, build.kernel, build.target, build.variant.id, small)


def lesson_problems(lesson):
    """Kernel -> its build, and the small problems that it is run on."""
    return {f"{b.operator}/{b.kernel}": (b.key, small_problems(b.key)) for b in lesson_builds(lesson)}


def timeline_path(build):
    return f"results/learn/timelines/{build.key}.json"


def timed_lesson_builds(lesson):
    """Builds with a predicted timeline on a learner's page: on paths, where a GPU is predicted for."""
    builds = lesson_builds(lesson) if lesson != goals.WHOLE else []
    return [build for build in builds if build.target in PLAN.clocks and small_problems(build.key)]


def lesson_timelines(lesson):
    """Kernel -> the record of its predicted timeline."""
    return {f"{build.operator}/{build.kernel}": timeline_path(build) for build in timed_lesson_builds(lesson)}


def timeline_case(build):
    """The first small problem of a build."""
    return PlannedCase(build, make_workload(build.operator, small_problems(build.key)[0]))


def lesson_checks(lesson):
    """Build -> the records of its simulated checks: of a build that a run makes anyway, those that it makes."""
    return {
        build.key: [
            case.id.path("correctness")
            for case in PLAN.checks_of_builds.get(build.key, ())
            if build.key not in SELECTION.live or case.key in SELECTION.checking
        ]
        for build in lesson_builds(lesson)
    }


def lesson_checked(lesson):
    return files_of(path for paths in lesson_checks(lesson).values() for path in paths)


def anatomy_of(operator):
    """The folder of an operator's records of anatomy, where that stage is wanted, and what its pages quote."""
    return [f"results/anatomy/{operator}"] if operator in READ and COMPILES else []


def anatomy_pages(operator):
    """Pages of anatomy as an output of the rule of an operator's page, which links to them."""
    pages = report(
        directory(f"results/report/anatomy/{operator}"),
        patterns=["{kernel}.html"],
        caption="../report/captions/anatomy.rst",
        category="Anatomy",
        subcategory=operator,
        labels={"kernel": "{kernel}"},
    )
    return {"anatomy": pages} if READ else {}


def of_operator(find):
    """An input function for the operator that wildcards name, or else the front page's."""
    return lambda wildcards: find(wildcards.get("operator", FRONT))


EVIDENCE = {
    "plan": of_operator("results/plan/{}.json".format),
    "records": of_operator(records_of),
    "roofline": of_operator("results/inspect/{}/roofline.json".format),
    "recorded": of_operator(recorded_of),
    "kept": of_operator(kept_of),
}


def page_arguments(wildcards, input, output):
    """What the job of an operator's page is told; the front page, which has no wildcards, links to pages not made yet."""
    return {
        "files": {**dict(input.items()), "upstream": UPSTREAM},
        "config": config,
        "sweep": asdict(EXPERIMENT.sweeps[wildcards.get("operator", FRONT)]),
        "front": FRONT_PAGE,
        "output": output.page,
        "placeholders": {} if wildcards.get("operator") else LINKED,
        "anatomy": output.get("anatomy"),
    }
