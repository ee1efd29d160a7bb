"""The plan of this run, and what several rules ask of it."""

import atexit
import difflib
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path[:0] = [workflow.basedir, f"{workflow.basedir}/workflow/scripts"]

from cutesnake.plan import config as configuration
from cutesnake import fault, folder, record, turns
from cutesnake.change import baseline
from cutesnake.measure import private
from cutesnake.learn import goals as learning
from cutesnake.plan import batches, lost, machine, matrix, nodes, problems, travel
from cutesnake.predict import card
from cutesnake.predict.band import read_rows
from cutesnake.simulate import simulation
from cutesnake.catalog import folders, kernel_files, load_kernel
from cutesnake.dsls import COMPARED
from cutesnake.places import ROOT
from cutesnake.contract import INSTALLED, OURS
from cutesnake.plan.staleness import digest_baked, digest_code, digest_data, remember

FORESEEN = (
    configuration.ConfigError,
    baseline.BaselineError,
    machine.MachineError,
    nodes.NodesError,
    travel.TravelError,
)

fault.use_utf8()
try:
    handed_on = travel.take_name(config) if not workflow.is_main_process else None
    configuration.read_again(config, workflow.configfiles, travel.others(workflow.config_settings.config_args or ()))
    EXPERIMENT = configuration.check(config)
    CLASSES = nodes.read_classes(EXPERIMENT.machines) if EXPERIMENT.machines else {}
    if workflow.is_main_process:
        MACHINE = machine.probe(matrix.modules_needed(EXPERIMENT))
        MACHINE, PLACES = nodes.sort_out(CLASSES, MACHINE, Path("results"))
        PLANNED_AFTER = folder.last_run()
        PLAN = matrix.make_plan(EXPERIMENT, MACHINE, Path("results"), PLACES)
    else:  # a job that an executor starts: it does what was planned, on whatever machine it is
        PLAN = travel.load(handed_on, EXPERIMENT)
        MACHINE = PLAN.machine
    BASELINE = baseline.locate(EXPERIMENT.baseline) if EXPERIMENT.baseline else None
except FORESEEN as error:
    raise WorkflowError(str(error)) from None

BUILD_RECORDS = [f"results/compile/{key}/build.json" for key in PLAN.builds]
INSPECT_RECORDS = [f"results/inspect/{key}.json" for key in PLAN.builds if "inspect" in EXPERIMENT.stages]
SIMULATED = [f"results/correctness/{key}.json" for key in PLAN.simulated]
CHECKED = [f"results/correctness/{case.key}.json" for case in PLAN.run_here("correctness")] + SIMULATED
TIMED = [f"results/timing/{case.key}.json" for case in PLAN.run_here("timing")]
PROFILED = [f"results/{stage}/{case.key}.json" for stage in ("nsys", "ncu") for case in PLAN.run_here(stage)]
CHOICES = PLAN.choices()
TUNED = [f"results/autotune/{key}.json" for key in CHOICES]
PREDICTED = [f"results/predict/{case.key}.json" for case in PLAN.predicted()]
MEASURED = [*CHECKED, *TIMED, *TUNED, *PROFILED]
BATCHES = {
    batch.key: batch
    for stage in ("correctness", "timing")
    if EXPERIMENT.cases_per_job > 1
    for batch in batches.make_batches(stage, PLAN.run_here(stage), EXPERIMENT.cases_per_job)
}
BATCH_OF = {path: batch.path for batch in BATCHES.values() for path in batch.records()}

RECORDS_MADE = (*BUILD_RECORDS, *INSPECT_RECORDS, *MEASURED, *PREDICTED)


def files_of(records):
    """What Snakemake makes for records: themselves, or the batches that they are in, each once."""
    return list(dict.fromkeys(BATCH_OF.get(path, path) for path in records))


RECORDS = {operator: {} for operator in PLAN.workloads}  # operator -> its records, or the batches that they are in
for path in RECORDS_MADE:
    RECORDS[Path(path).parts[2]][BATCH_OF.get(path, path)] = None
RECORDS = {operator: list(paths) for operator, paths in RECORDS.items()}
COMPARISONS = [f"results/compare/{operator}.json" for operator in PLAN.workloads]
CHANGES = [f"results/change/{operator}.json" for operator in PLAN.workloads if BASELINE]
try:
    GOALS = learning.read_goals(Path(workflow.basedir, "config/learning.yaml"))
except learning.GoalError as error:
    raise WorkflowError(str(error)) from None
# Kernels in the two DSLs in folders of the user's own, as operator/kernel.
OWN_KERNELS = sorted(
    {
        f"{build.operator}/{build.kernel}"
        for build in PLAN.builds.values()
        if load_kernel(build.operator, build.kernel).DSL in COMPARED
        and not Path(kernel_files(build.operator)[build.kernel]).is_relative_to(ROOT / "kernels")
    }
)
READ = [operator for operator in PLAN.workloads if "anatomy" in EXPERIMENT.stages]  # operators with pages of anatomy
OPERATIONS = ["results/report/operations.html", "results/operations.json"] * ("operations" in EXPERIMENT.stages)
FRONT_PAGE = "mla_report.html"
FRONT, *OTHERS = PLAN.workloads  # the operator that the front page shows in full, and those with a page of their own

# Everything that a run makes, with the stage that makes it: looked at before the run, see cutesnake/plan/lost.py.
PRODUCTS = [lost.Product(path, Path(path).parts[1]) for path in RECORDS_MADE]
PRODUCTS += [lost.Product(batch.path, "batch") for batch in BATCHES.values()]
PRODUCTS += [
    lost.Product(path.format(operator), stage)
    for operator in PLAN.workloads
    for path, stage in (
        ("results/plan/{}.json", "plan"),
        ("results/inspect/{}/roofline.json", "roofline"),
        ("results/compare/{}.json", "compare"),
        ("results/compare/{}.csv", "compare"),
        ("results/plot/{}", "plot"),
    )
]
PRODUCTS += [lost.Product(str(Path(path).with_suffix(end)), "change") for path in CHANGES for end in (".json", ".csv")]
PRODUCTS += [lost.Product(f"results/report/{operator}.html", "page") for operator in OTHERS]
PRODUCTS += [lost.Product(f"results/anatomy/{operator}", "anatomy") for operator in READ]
PRODUCTS += [lost.Product(f"results/report/anatomy/{operator}", "anatomy_pages") for operator in READ]
PRODUCTS += [lost.Product(path, "operations") for path in OPERATIONS]
PRODUCTS += [
    lost.Product(f"results/fetch/{source}/fetched.json", "fetch")
    for source in sorted({*PLAN.sources.values()} - {OURS, INSTALLED})
]
PRODUCTS += [
    lost.Product("results/arch.json", "arch"),
    lost.Product("results/overview", "overview"),
    lost.Product(f"results/{FRONT_PAGE}", "report"),
]
LOST = {}
if workflow.is_main_process:  # a job that an executor starts reads all this again, and must do nothing of it
    LOST, told = lost.lost(PRODUCTS)
    if told:
        logger.warning(lost.line(LOST, told))
    atexit.register(remember)
    atexit.register(lost.remember, PRODUCTS)

# Files of the project as seen from the working directory: usually the same folder, so that a copy of it is not stale.
PROJECT = Path(os.path.relpath(workflow.basedir))
KNOWLEDGE = sorted(map(str, Path(PROJECT, "docs/knowledge").rglob("*.md")))
TEMPLATES = sorted(str(path) for path in Path(PROJECT, "workflow/report").iterdir() if path.is_file())


wildcard_constraints:
    operator=r"\w+",
    kernel=r"\w+",
    target=r"sm_\w+",
    variant=r"[\w.-]+",
    workload=r"\w+(@\w+)?",  # and the class of nodes that measures it, where there are several
    machine=r"[a-z]\w*",
    stage=r"correctness|timing",
    batch=r"b\d+(@\w+)?",
    package=r"[\w-]+",
    lesson=r"learn(_path_\w+)?",


def make_lost_again():
    """Have Snakemake make again what is lost, as `--forcerun` would, where it is part of what was asked for.

    Called by input functions: when they are asked the graph is there, and what of it has to run is not decided yet.
    """
    workflow.dag.forcefiles.update(files_of(LOST))


def take_turns():
    """Have what this process starts wait for its turn on this machine, see cutesnake/turns.py."""
    if EXPERIMENT.timing_alone:
        os.environ[turns.VARIABLE] = str(private.private_folder())


def share_out_cards():
    """One GPU job at a time to each card of this machine; where jobs go to other nodes, their cards are counted there."""
    cards = max(1, len(MACHINE.alike()))
    allowed = workflow.global_resources["gpu"].value if "gpu" in workflow.global_resources else cards
    if workflow.resource_settings.nodes is None:
        workflow.register_resource("gpu", min(cards, allowed))


if workflow.is_main_process:
    share_out_cards()
else:
    take_turns()
    os.environ[record.NODE] = platform.node()


def hand_on_plan():
    """Write the plan for the jobs that executors start, and have Snakemake tell them its name."""
    settings = workflow.config_settings
    settings.config_args = [*(settings.config_args or ()), f"{travel.KEY}={travel.save(PLAN, EXPERIMENT)}"]


def front_page(wildcards):
    make_lost_again()
    return f"results/{FRONT_PAGE}"


def planned(table, key):
    """An entry of the plan; ends Snakemake with one line, the nearest entries first, if it is not planned.

    Whatever else an input function raises is shown with a traceback.
    """
    if key not in table:
        near = difflib.get_close_matches(key, table, n=3, cutoff=0.0)
        sys.exit(f"{key} is not planned; {'nearest: ' + ', '.join(near) if near else 'nothing of that kind is'}")
    return table[key]


def build_of(wildcards):
    """The planned build that wildcards name."""
    return planned(PLAN.builds, "{0.operator}/{0.kernel}/{0.target}/{0.variant}".format(wildcards))


def key_of(wildcards):
    return "{0.operator}/{0.kernel}/{0.target}/{0.variant}/{0.workload}".format(wildcards)


def identity_of(wildcards):
    """The planned case that wildcards name, as plain data."""
    key = key_of(wildcards)
    # Both tables at once only where it is in neither: putting them together for every job takes long.
    return identity(PLAN.planned_case(key) or planned(PLAN.simulated | PLAN.cases, key))


def identity(case):
    """A case as plain data."""
    return {
        "operator": case.build.operator,
        "kernel": case.build.kernel,
        "target": case.build.target,
        "variant": {"id": case.build.variant.id, "params": dict(case.build.variant.params)},
        "parameters": asdict(case.workload),
    }


def class_of(wildcards):
    """The class of nodes that a job is for, after the `@` of its case or batch; none for this machine."""
    return (wildcards.get("workload") or wildcards.get("batch") or "").partition("@")[2]


def place_of(wildcards):
    """The machine that a case is measured on: this one, or what was found on a node of its class."""
    return PLAN.places.get(class_of(wildcards), MACHINE)


def card_of(wildcards):
    """The fingerprint of the card that a case is measured on; of a class of nodes any card will do."""
    place = place_of(wildcards)
    return nodes.of_a_kind(place) if class_of(wildcards) else place.fingerprint


def asked_of_slurm(what):
    """What a job's class of nodes says about `what`, a field of NodeClass, for Slurm; None where it says nothing."""

    def value(wildcards):
        name = wildcards.get("machine") or class_of(wildcards)
        chosen = CLASSES.get(name) or next((one for one in CLASSES.values() if one.device is None), None)
        return getattr(chosen, what) if chosen else None

    return value


def running_code(stage):
    """Digest of the code that a measurement depends on: the stage and the kernel with all they import.

    A kernel that a Python package brings along depends on that package's version too.
    """

    def digest(wildcards):
        code = digest_code(stage, f"kernels.{wildcards.operator}.{wildcards.kernel}")
        needed = load_kernel(wildcards.operator, wildcards.kernel).NEEDS
        versions = {name: place_of(wildcards).modules[name] for name in needed}
        return digest_data([code, versions]) if versions else code

    return digest


def validation():
    """The predictions that were held against cards, which the bands of new ones follow from."""
    return read_rows(PROJECT / "benchmarks/prediction") if PREDICTED else []


def backend_of(wildcards):
    """What a case is checked on: `cuda`, the card in use, or `ptxsim`, for want of the target's card."""
    return simulation.NAME if key_of(wildcards) in PLAN.simulated else "cuda"


def checking_settings(wildcards):
    sweep = EXPERIMENT.sweeps[wildcards.operator]
    if backend_of(wildcards) == "cuda":
        return {"seeds": EXPERIMENT.seeds, "distributions": sweep.distributions}
    chosen = {key: value for key, value in EXPERIMENT.simulation.items() if key != "extent"}
    return {**chosen, "distributions": sweep.simulation[EXPERIMENT.extent]["distributions"]}


def checking_device(wildcards):
    return card_of(wildcards) if backend_of(wildcards) == "cuda" else simulation.NAME


def checking_code(wildcards):
    return running_code(
        "cutesnake.measure.correctness" if backend_of(wildcards) == "cuda" else "cutesnake.simulate.simulation"
    )(wildcards)


def cards_of(wildcards):
    """Cards that checking a case occupies."""
    return int(backend_of(wildcards) == "cuda")


def checked_first(wildcards):
    """The case's correctness record where that stage is wanted: what is wrong is not timed."""
    if "correctness" not in EXPERIMENT.stages:
        return []
    (file,) = files_of([f"results/correctness/{key_of(wildcards)}.json"])
    return file


def batch_of(wildcards):
    key = "{0.stage}/{0.operator}/{0.kernel}/{0.target}/{0.variant}/{0.batch}".format(wildcards)
    return planned(BATCHES, key)


def needed_by(stage, case):
    """Correctness records that a case of a batch needs."""
    wanted = stage != "correctness" and "correctness" in EXPERIMENT.stages
    return [batches.record_of("correctness", case)] if wanted else []


def checked_before_batch(wildcards):
    batch = batch_of(wildcards)
    return files_of(path for case in batch.cases for path in needed_by(batch.stage, case))


def settings_of_batch(wildcards):
    if wildcards.stage == "timing":
        return EXPERIMENT.timing
    return {"seeds": EXPERIMENT.seeds, "distributions": EXPERIMENT.sweeps[wildcards.operator].distributions}


def cases_of_batch(wildcards):
    """Cases of a batch as its job needs them, each with a digest of what it depends on besides files."""
    batch = batch_of(wildcards)
    alike = [settings_of_batch(wildcards), card_of(wildcards)]
    alike.append(running_code(f"cutesnake.measure.{wildcards.stage}")(wildcards))
    return [
        {
            "identity": identity(case),
            "record": batches.record_of(batch.stage, case),
            "needs": needed_by(batch.stage, case),
            "from": digest_data([*alike, identity(case)]),
        }
        for case in batch.cases
    ]


def timed_first(wildcards):
    """The case's timing record where that stage runs here: a timeline is held against it."""
    return files_of([f"results/timing/{key_of(wildcards)}.json"]) if PLAN.stages["timing"].ok else []


def upstream_of(wildcards):
    """The fetched wheel that an upstream kernel comes from; nothing for our own and for installed kernels."""
    make_lost_again()
    source = PLAN.sources[build_of(wildcards).operator, wildcards.kernel]
    return [] if source in (OURS, INSTALLED) else [f"results/fetch/{source}/fetched.json"]


def variant_of(wildcards):
    return dict(build_of(wildcards).variant.params)


def baked_code_of(wildcards):
    return digest_baked(wildcards.operator, wildcards.kernel)


def workload_parameters_of(wildcards):
    return [asdict(workload) for workload in planned(PLAN.workloads, wildcards.operator)]


def roofline_code_of(wildcards):
    return digest_code("roofline.py", f"kernels.{wildcards.operator}.operator")


def plan_of(wildcards):
    planned(PLAN.workloads, wildcards.operator)
    return PLAN.of(wildcards.operator)


def records_of(operator):
    """What this machine has found out about an operator: records of builds, static figures and measurements."""
    return planned(RECORDS, operator)


def recorded_devices():
    """The driver's names of the cards that have a recorded set."""
    return sorted(json.loads(path.read_text())["device"] for path in Path(PROJECT, "recorded").glob("*/set.json"))


def cards_of_nodes():
    """The driver's names of the cards that classes of nodes have."""
    return sorted({place.device.name for name, place in PLAN.places.items() if name and place.device})


def recorded_of(operator):
    """The committed measurements of an operator."""
    return sorted(str(path) for path in Path(PROJECT, "recorded").glob(f"*/*-{operator}.jsonl"))


def changes_of(operator):
    """The record of what changed of an operator, where there is a baseline."""
    return [path for path in CHANGES if Path(path).stem == operator]


def baseline_digest_of(wildcards):
    return baseline.digest(BASELINE, wildcards.operator) if BASELINE else None


def references_of(operator):
    """Files of times that an operator's peers took elsewhere, where it has any."""
    files = (folder / "reference_times.yaml" for folder in folders(operator))
    return [os.path.relpath(path) for path in files if path.exists()]


def anatomy_builds_of(wildcards):
    """Builds of an operator -> the small problems that they are run on for their anatomy."""
    small = EXPERIMENT.sweeps[wildcards.operator].small()
    builds = [build for build in PLAN.builds.values() if build.operator == wildcards.operator]
    return {
        build.key: problems.chosen(build.operator, build.kernel, build.target, build.variant.id, small)
        for build in builds
    }


def lesson_builds(lesson):
    """Builds that a learner's page shows: one per kernel, in reading order."""
    kernels = [*learning.kernels_of(GOALS, lesson), *(OWN_KERNELS if lesson == learning.WHOLE else [])]
    found = (learning.chosen_build(PLAN.builds, kernel) for kernel in kernels)
    return [key for key in found if key is not None]


def lesson_problems(lesson):
    """Kernel -> its build, and the small problems that it is run on."""
    found = {}
    for key in lesson_builds(lesson):
        operator, kernel, target, variant = key.split("/")
        small = EXPERIMENT.sweeps[operator].small()
        found[f"{operator}/{kernel}"] = (key, problems.chosen(operator, kernel, target, variant, small))
    return found


def lesson_checks(lesson):
    """Build -> the records of its simulated checks."""
    return {
        key: [path for path in SIMULATED if path.startswith(f"results/correctness/{key}/")]
        for key in lesson_builds(lesson)
    }


def anatomy_code_of(wildcards):
    """Digest of the stage, and of what binds each kernel of the operator to its inputs."""
    kernels = sorted({build.kernel for build in PLAN.builds.values() if build.operator == wildcards.operator})
    return digest_code("anatomy.py", *(f"kernels.{wildcards.operator}.{kernel}" for kernel in kernels))


def anatomy_pages_of(operator):
    """The folder of pages that an operator's page links to, where that stage is wanted."""
    return [f"results/report/anatomy/{operator}"] if operator in READ else []


def operator_page(operator):
    """An operator's page as a page of anatomy links to it."""
    return f"../../../{FRONT_PAGE}" if operator == FRONT else f"../../{operator}.html"


def timings_of(wildcards):
    key = "{0.operator}/{0.kernel}/{0.target}/{0.workload}".format(wildcards)
    return [f"results/timing/{case.key}.json" for case in planned(CHOICES, key)]


def timing_files_of(wildcards):
    return files_of(timings_of(wildcards))
