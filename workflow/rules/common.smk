"""The plan of this run, and what is set up before its jobs."""

import atexit
import difflib
import gc
import os
import signal
import sys
from pathlib import Path

# Of this file, not `workflow.basedir`: another Snakefile may include this workflow or use it as a module.
ROOT = Path(str(workflow.current_basedir)).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow/scripts")]

from cutesnake.runtime import failures, errors, folder, locks, pool, snakemake_internals, terminal
from cutesnake.stages.compile import limited_process
from cutesnake.model import kept_builds, paths
from cutesnake.model.catalog import load_kernel
from cutesnake.analysis.change import baseline
from cutesnake.runtime.job import forked_scripts
from cutesnake.runtime import gpu_slots, private_folder
from cutesnake.planning import config as configuration  # Snakemake has a `config` of its own
from cutesnake.planning import kernel_queries, machine, matrix, nodes, outputs, recorded_builds, requested
from cutesnake.planning import serialized_plan
from cutesnake.stages.simulate import translation_cache

FORESEEN = (
    configuration.ConfigError,
    baseline.BaselineError,
    folder.FolderError,
    snakemake_internals.OtherSnakemakeError,
    machine.MachineError,
    nodes.NodesError,
    serialized_plan.SerializedPlanError,
)
FRONT_PAGE = "mla_report.html"
SITE = "site"  # this target makes pages from records only
SITE_FOLDER = "results/site"
AT_START = (
    folder.FolderError,
    serialized_plan.SerializedPlanError,
    private_folder.PrivateError,
    snakemake_internals.OtherSnakemakeError,
)

paths.use_in_processes()
errors.use_utf8()
# What the plan and the graph are made of stays: looking among it for garbage as often as Python does takes a tenth of a
# run that finds nothing to do.
gc.set_threshold(50_000, 20, 100)
atexit.register(gc.freeze)  # nor among it at the end, before the process gives all of it back: half a second
try:
    snakemake_internals.check_version()
    cores = snakemake_internals.cores(workflow)
    if (
        snakemake_internals.is_main(workflow)
        and snakemake_internals.is_local(workflow)
        and cores is not None
        and cores < 1
    ):
        sys.exit(f"--cores {cores} leaves no processor for any job: say --cores 1, more, or all")
    handed_on = serialized_plan.take_name(config) if not snakemake_internals.is_main(workflow) else None
    if not snakemake_internals.replaces_config(workflow):
        configuration.lay_over_file(config, paths.ROOT / "config/config.yaml")
    configuration.read_again(
        config, workflow.configfiles, serialized_plan.others(snakemake_internals.config_arguments(workflow))
    )
    if snakemake_internals.asked_for(SITE, SITE_FOLDER):
        config["compile"]["recorded"] = "only"
    EXPERIMENT = configuration.check(config)
    CLASSES = nodes.read_classes(EXPERIMENT.machines) if EXPERIMENT.machines else {}
    if snakemake_internals.is_main(workflow):
        folder.check_notes(sys.argv)
        MACHINE = machine.probe(matrix.modules_needed(EXPERIMENT))
        MACHINE, PLACES = nodes.sort_out(CLASSES, MACHINE, Path("results"))
        PLANNED_AFTER = folder.last_run()
        WANTED = requested.operators(snakemake_internals.targets(), list(EXPERIMENT.sweeps), f"results/{FRONT_PAGE}")
        carried = outputs.carried(Path("results"), MACHINE.packages)
        if EXPERIMENT.recorded == "only":
            carried |= recorded_builds.places_of(ROOT / kept_builds.FOLDER)
        kernel_queries.recall = True
        PLAN = matrix.make_plan(EXPERIMENT, MACHINE, PLACES, carried, WANTED)
    else:  # a job that an executor starts: it does what was planned, on whatever machine it is
        PLAN = serialized_plan.load(handed_on, EXPERIMENT)
        MACHINE = PLAN.machine
    BASELINE = baseline.locate(EXPERIMENT.baseline) if EXPERIMENT.baseline else None
except FORESEEN as error:  # one line: an exception of Snakemake's would add this file's own path and line
    sys.exit(str(error))

# Without a GPU, builds and predictions go before simulated checks: anatomy and plots of an operator, long jobs on one
# processor each, then run at the same time. A GPU gets its first case as soon as that is built and checked.
BUILDS_FIRST = int(not any(place.device for place in PLAN.places.values()))

# Files of the project as seen from the working directory: usually the same folder, so that a copy of it is not stale.
PROJECT = Path(os.path.relpath(ROOT))
DEVICES = str(PROJECT / "config/devices.yaml")
KNOWLEDGE = sorted(str(path) for kind in ("md", "yaml") for path in Path(PROJECT, "docs/knowledge").rglob(f"*.{kind}"))
VERDICT_FILES = [  # what verdicts read besides records
    *(str(PROJECT / f"kernels/{name}.yaml") for name in ("authors", "upstream_lines")),
    DEVICES,
    *sorted(map(str, Path(PROJECT, "workflow/validation").glob("*.jsonl"))),
]
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
    part=r"simulated(_rest)?",
    package=r"[\w-]+",
    toolchain=r"[\w.+-]+",
    lesson=r"learn(_path_\w+)?",


def take_turns():
    """Have what this process starts wait for its turn on this machine, see cutesnake/runtime/locks.py."""
    if EXPERIMENT.timing_alone:
        os.environ[locks.MACHINE_LOCKS] = str(private_folder.private_folder())


def grouped(group):
    """The group of a rule's jobs where jobs go to other nodes: an executor's job does all of a group, see profiles/."""
    return group if not snakemake_internals.is_local(workflow) else None


def serve_jobs():
    """Have jobs on this machine forked from processes with the DSLs and PyTorch imported, see cutesnake/runtime/pool.py."""
    if not snakemake_internals.is_local(workflow):  # jobs go to other nodes
        return
    built_with = {(load_kernel(build.operator, build.kernel).DSL, build.target) for build in PLAN.builds.values()}
    builders = sorted(limited_process.kind_of(dsl, target) for dsl, target in built_with)
    translation_cache.share()
    pool.start(["scripts", "host", "pages", "plots", "simulator", *builders])
    snakemake_internals.fork_scripts(forked_scripts)
    told_to_end = signal.getsignal(signal.SIGINT)

    def end(number, frame):
        pool.give_up()
        told_to_end(number, frame)

    if callable(told_to_end):  # else it is ignored, and shall be
        signal.signal(signal.SIGINT, end)


def share_out_cards():
    """As many GPU jobs as cards of this machine measure at once, and one more each may wait, started already.

    Where jobs go to other nodes, their cards are counted there.
    """
    if not snakemake_internals.is_local(workflow):
        return
    allowed = snakemake_internals.resource(workflow, "gpu")
    count = max(1, len(MACHINE.candidate_devices()))
    count = count if allowed is None else min(count, allowed)
    os.environ[gpu_slots.AT_ONCE] = str(count)
    snakemake_internals.set_resource(
        workflow, "gpu", count + gpu_slots.started_ahead(count, snakemake_internals.cores(workflow) or 1)
    )


def do_group():
    """Do the jobs of a group as the main process does those of this machine, on as many processors as Slurm gave."""
    if "--local-groupid" in sys.argv:
        given = int(os.environ.get("SLURM_CPUS_PER_TASK", sys.maxsize))
        snakemake_internals.set_resource(workflow, "_cores", min(given, snakemake_internals.cores(workflow)))
        serve_jobs()


try:
    if not snakemake_internals.is_local(workflow):
        snakemake_internals.pass_groups()
        snakemake_internals.keep_going_in_groups()
        snakemake_internals.keep_what_is_finished(workflow)
    if snakemake_internals.is_main(workflow):
        share_out_cards()
    else:
        take_turns()
        pool.stop()
        if snakemake_internals.is_local(workflow):  # else this process only starts the one that does the job
            do_group()
except snakemake_internals.OtherSnakemakeError as error:
    sys.exit(str(error))


def files_of_run():
    """Inputs and outputs of the run's jobs, also of those that had nothing to do."""
    return frozenset(map(str, snakemake_internals.files_of_jobs(workflow)))


def tell_failures():
    """Say at a run's end which cells failed: of the operators that it compares, or else of the jobs that it did."""
    files = files_of_run()
    if files.isdisjoint(COMPARISONS):
        files = frozenset(map(str, snakemake_internals.files_of_started_jobs(workflow)))
    made = failures.of_run(MADE, BATCH_OF, files)
    compared = {name for name in PLAN.workloads if f"results/compare/{name}.json" in files}
    operators = compared | {case.operator for _, case, _ in made}
    if snakemake_internals.asked_for("compiled", "checked", "measured"):
        operators |= set(PLAN.workloads)  # of which a kernel may have no job, since it cannot be loaded
    broken = {kernel: why for kernel, why in PLAN.broken.items() if kernel[0] in operators}
    for told in failures.lines(made, broken, PLAN.sources, f"results/{FRONT_PAGE}"):
        logger.warning(told, extra={"end": "failed"})


def hand_on_plan():
    """Write the plan for the jobs that executors start, and have Snakemake tell them its name."""
    snakemake_internals.add_config_argument(workflow, f"{serialized_plan.KEY}={serialized_plan.save(PLAN, EXPERIMENT)}")


def planned(table, key):
    """An entry of the plan; ends Snakemake with one line, the nearest entries first, if it is not planned.

    Whatever else an input function raises is shown with a traceback.
    """
    if key not in table:
        near = difflib.get_close_matches(key, table, n=3, cutoff=0.0)
        sys.exit(f"{key} is not planned; {'nearest: ' + ', '.join(near) if near else 'nothing of that kind is'}")
    return table[key]
