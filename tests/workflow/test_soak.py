"""Random actions on a folder, compared with a model of what is stale.

The model knows nothing of digests: it notes of what each build was made. After one or several actions a dry run must
announce the builds that the model names, and nothing where nothing is stale. Runs end as a run in a new folder does.
CI does a few actions; CONTRIBUTING.md says how many were tried by hand.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import dry_runs
from cutesnake.model.catalog import load_kernel, make_workload
from project import LOOKED_AT, OWN_OUTPUT, TINY, copy_project, snakemake

ACTIONS = int(os.environ.get("CUTESNAKE_SOAK_ACTIONS", "40"))
SEED = int(os.environ.get("CUTESNAKE_SOAK_SEED", "1"))
SECONDS = float(os.environ.get("CUTESNAKE_SOAK_SECONDS", "inf"))  # no further action after this
CHECKED = float(os.environ.get("CUTESNAKE_SOAK_CHECKED", "0.3"))  # share of the actions that a dry run follows
MOST_AT_ONCE = 60  # actions between two runs
RUNS_PER_CLEAN = 8  # runs after which the results are compared with results in a new folder
KERNEL = """
import os
import signal
from pathlib import Path
from cutesnake.model.contract import Variant
DSL = "cuda"
SOURCE = "ours"
TARGETS = {"sm_90a": ()}

def supports(workload):
    return None

def variants(workload, target):
    return (Variant(f"rows{workload.rows}", {"rows": workload.rows}),)

def compile(variant, target, folder):
    text = Path(__file__).with_name("text.txt").read_text()
    (folder / "note.txt").write_text(f"VERSION {text}")
    if "VERSION" == "wrong":
        raise ValueError("no such thing")
    if "VERSION" == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"symbols": [], "notes": ["VERSION"]}

def bind(build, workload, inputs, outputs):
    raise NotImplementedError
"""
VERSIONS = ("one", "two", "wrong", "killed")
UPGRADED = ("cuda-tile", "matplotlib")  # of which a newer version is mocked; the first one makes builds
OF_ALL = ("mla_report.html", "compare/elementwise_add.json", "compare/elementwise_add.csv", "arch.json")
TOOK = re.compile(r'"seconds": [\d.]+|Compiled in [\d.]+ s')
DIGEST = re.compile(r'"[0-9a-f]{16}"')  # of records, which hold the times when they were made
TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00|Z| UTC)?")
ANNOUNCED = re.compile(r"^ +output: (.*)$", re.MULTILINE)
BUILD = re.compile(r"results/compile/elementwise_add/(\w+)/sm_90a/([\w.-]+)/build\.json")

Build = tuple[str, str]  # kernel, variant


@dataclass
class Model:
    """What is asked for, and what each build may be made of."""

    version: dict[str, str] = field(default_factory=lambda: {"ann": "one", "bob": "one"})
    text: str = "first"  # a file that `compile` reads
    taken: list[str] = field(default_factory=lambda: ["ann", "cutile"])
    rows: list[int] = field(default_factory=lambda: [3])
    packages: dict[str, str] = field(default_factory=dict)  # mocked: name -> version
    made: dict[Build, set[str]] = field(default_factory=dict)  # "": missing or damaged; two after a killed run
    reported: str | None = None  # what the report was made of
    unsure: bool = True  # whether more than builds may be stale

    def planned(self) -> dict[Build, str]:
        """The builds that are asked for, and what each depends on."""
        builds: dict[Build, str] = {}
        for kernel in self.taken:
            for rows in self.rows:
                if kernel == "cutile":
                    workload = make_workload("elementwise_add", {"rows": rows, "columns": 1000, "dtype": "fp32"})
                    first = load_kernel("elementwise_add", kernel).variants(workload, "sm_90a")[0]
                    builds[kernel, first.id] = f"cuda-tile {self.packages.get('cuda-tile')}"
                else:
                    builds[kernel, f"rows{rows}"] = f"{self.version[kernel]} {self.text}"
        return builds

    def dies(self) -> bool:
        """Whether a build that is asked for ends its process each time."""
        return any(needs.startswith("killed") for needs in self.planned().values())

    def stale(self) -> set[Build]:
        """The builds that the next run must make."""
        return {build for build, needs in self.planned().items() if needs not in self.made.get(build, {""})}

    def maybe(self) -> set[Build]:
        """The builds that a killed run may have made."""
        return {build for build in self.planned() if len(self.made.get(build, {""})) > 1} - self.stale()

    @property
    def state(self) -> str:
        """All that the results depend on: kernels that are not taken are none of it."""
        return json.dumps([sorted(self.planned().items()), self.taken, self.rows, sorted(self.packages.items())])

    def anything(self) -> bool | None:
        """Whether the next run must do anything; None where only the builds are known."""
        if self.stale() or (not self.unsure and self.reported != self.state):
            return True
        return None if self.unsure else False

    def ran(self) -> None:
        """A run ended: what it could make is made."""
        planned = self.planned()
        self.made |= {build: {needs} for build, needs in planned.items() if not needs.startswith("killed")}
        self.unsure = self.dies()
        self.reported = self.state

    def broke_off(self) -> None:
        """A run ended early: it may have made some builds."""
        planned = self.planned()
        for build in self.stale() | self.maybe():
            if not planned[build].startswith("killed"):
                self.made[build] = self.made.get(build, {""}) | {planned[build]}
        self.unsure = True


class Folder:
    """A copy of the project with kernels of a user's own."""

    def __init__(self, path: Path, source: Path, model: Model) -> None:
        self.path = Path(shutil.copytree(source, path))
        self.places = path.parent
        self.model = model
        self.comments = 0
        self.copies = 0
        self.write()

    def write(self) -> list[Path]:
        mine = self.path / "mine/elementwise_add"
        mine.mkdir(parents=True, exist_ok=True)
        for name, version in self.model.version.items():
            (mine / f"{name}.py").write_text(f"{KERNEL.replace('VERSION', version)}# comment {self.comments}\n")
        (mine / "text.txt").write_text(self.model.text)
        return sorted(mine.iterdir())

    def arguments(self) -> list[str]:
        workloads = [{"rows": self.model.rows, "columns": 1000}]
        sweep = {"kernels": self.model.taken, "dtypes": ["fp32"], "workloads": workloads, "profile": []}
        chosen = [f"sweeps={json.dumps({'elementwise_add': sweep})}", "kernel_paths=[mine]", "stages=[inspect]"]
        return ["--config", *chosen, "simulation={extent: none}", "compile={recorded: ignore, baked_sizes: all}"]

    def environment(self) -> dict[str, str]:
        place = self.places / "newer"
        shutil.rmtree(place, ignore_errors=True)
        for name, version in self.model.packages.items():
            info = place / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return {"PYTHONPATH": str(place)} if self.model.packages else {}

    def run(self, *targets: str) -> subprocess.CompletedProcess:
        return dry_runs.run(self.command(*targets), self.path, self.whole_environment())

    def start(self) -> int:
        """Start a run and return its process id."""
        message = self.places / "message"
        message.touch()
        return dry_runs.start(self.command(), self.path, self.whole_environment(), [str(message)] * 2)

    def command(self, *targets: str) -> list[str]:
        return ["--cores", "1", *targets, *self.arguments(), "--configfile", TINY]

    def whole_environment(self) -> dict[str, str]:
        machine = {"CUTESNAKE_MACHINE": str(self.path / "tests/machines/none.json")}
        return {**os.environ, **machine, **self.environment()}

    def announced(self) -> tuple[set[Build], bool, str]:
        """Return the builds that a dry run announces, whether any job, and its output."""
        done = snakemake(self.path, "--dry-run", OWN_OUTPUT, *self.arguments(), **self.environment())
        assert done.returncode == 0, done.stdout + done.stderr
        outputs = ANNOUNCED.findall(done.stdout)
        return {(one[1], one[2]) for line in outputs for one in BUILD.finditer(line)}, bool(outputs), done.stdout

    def builds(self) -> dict[Build, Path]:
        """The builds that are there, with their folders."""
        result = sorted((self.path / "results/compile/elementwise_add").glob("*/sm_90a/*"))
        return {(path.parts[-3], path.name): path for path in result if any(path.glob("[!.]*"))}

    def forget_missing(self, tried: set[Build]) -> None:
        """Note missing builds: Snakemake deletes outputs before a job, which may not end."""
        for kernel, variant in tried:
            if not (self.path / f"results/compile/elementwise_add/{kernel}/sm_90a/{variant}/build.json").exists():
                self.model.made[kernel, variant] = {""}

    def results(self) -> dict[str, str]:
        """Every file, less times and what took how long."""
        result = {}
        for path in sorted((self.path / "results").rglob("*")):
            name = str(path.relative_to(self.path))
            if path.is_file() and not {"log", "store"} & set(Path(name).parts) and not path.name.startswith("."):
                text = TIMES.sub("TIME", path.read_bytes().decode("latin-1"))
                result[name] = DIGEST.sub('"DIGEST"', TOOK.sub("TOOK", text))
        return result


def first_difference(text: str, expected: str) -> str:
    """What stands in a file where it begins to differ, empty if it does not."""
    if text == expected:
        return ""
    pairs = enumerate(zip(text, expected, strict=False))
    at = next((place for place, (one, other) in pairs if one != other), min(len(text), len(expected)))
    return f"{text[at - 30 : at + 50]!r} for {expected[at - 30 : at + 50]!r}"


def harm(path: Path, chance: random.Random) -> str:
    """Delete a file or change what it holds."""
    how = chance.choice(["deleted", "cut", "brace", "emptied", "changed"])
    if how == "deleted":
        path.unlink()
        return f"{how}: {path}"
    content = path.read_bytes()
    middle = len(content) // 2
    changed = content[:middle] + b"\0?" + content[middle + 2 :]
    new = {"cut": content[: len(content) * 2 // 3], "brace": b"{", "emptied": b"", "changed": changed}[how]
    path.write_bytes(new)
    return f"{how}: {path}"


def damage_build(folder: Folder, chance: random.Random) -> str:
    builds = folder.builds()
    if not builds:
        return "no build to damage"
    build = chance.choice(sorted(builds))
    files = sorted(path for path in builds[build].iterdir() if path.is_file() and not path.name.startswith("."))
    figures = folder.path / "results/inspect/elementwise_add" / build[0] / "sm_90a" / f"{build[1]}.json"
    files += [figures] * figures.exists()
    path = chance.choice(files)
    if path.name != "build.json" and not path.stat().st_size:
        return f"{path} is empty already"
    folder.model.made[build] = {""}
    return harm(path, chance)


def damage_folder(folder: Folder, chance: random.Random) -> str:
    builds = folder.builds()
    if not builds:
        return "no build to delete"
    build = chance.choice(sorted(builds))
    folder.model.made[build] = {""}
    shutil.rmtree(builds[build])
    return f"deleted {builds[build]}"


def damage_report(folder: Folder, chance: random.Random) -> str:
    path = folder.path / "results" / chance.choice(OF_ALL)
    if not path.exists() or not path.stat().st_size:
        return f"no {path}"
    if not folder.model.unsure:
        folder.model.reported = None
    return harm(path, chance)


def damage_any(folder: Folder, chance: random.Random) -> str:
    """A file that is no build's: the model does not say what follows from it."""
    places = {"log", "store", "compile", "inspect"}
    files = [path for path in sorted((folder.path / "results").rglob("*")) if path.is_file()]
    files = [path for path in files if not places & set(path.relative_to(folder.path).parts)]
    if not files:
        return "no file to damage"
    folder.model.unsure = True
    return harm(chance.choice(files), chance)


def touch(folder: Folder, chance: random.Random) -> str:
    """Another date of a result or of a kernel, older or newer."""
    files = [path for place in ("results", "mine") for path in sorted((folder.path / place).rglob("*"))]
    path = chance.choice([path for path in files if path.is_file()])
    date = chance.choice([time.time(), 1_000_000_000])
    os.utime(path, (date, date))
    return f"dated {path} {date:.0f}"


def edit(folder: Folder, chance: random.Random) -> str:
    if chance.random() < 0.3:
        folder.model.text = chance.choice(["first", "second"])
    else:
        folder.model.version[chance.choice(["ann", "bob"])] = chance.choices(VERSIONS, [4, 4, 2, 1])[0]
    older = chance.random() < 0.3
    for path in folder.write():
        if older:
            os.utime(path, (1_000_000_000, 1_000_000_000))
    return f"versions {folder.model.version}, {folder.model.text}{', with an older date' if older else ''}"


def comment(folder: Folder, chance: random.Random) -> str:
    folder.comments += 1
    folder.write()
    return f"comment {folder.comments}"


def take(folder: Folder, chance: random.Random) -> str:
    folder.model.taken = sorted(["cutile", *chance.sample(["ann", "bob"], chance.randint(0, 2))])
    return f"kernels {folder.model.taken}"


def sweep(folder: Folder, chance: random.Random) -> str:
    folder.model.rows = chance.choice([[3], [5], [3, 5]])
    return f"rows {folder.model.rows}"


def upgrade(folder: Folder, chance: random.Random) -> str:
    name = chance.choice(UPGRADED)
    folder.model.packages.pop(name, None)
    if version := chance.choice([None, "998.0", "999.0"]):
        folder.model.packages[name] = version
    return f"upgraded: {folder.model.packages}"


def copy(folder: Folder, chance: random.Random) -> str:
    """Copy with new or old dates, at another depth."""
    folder.copies += 1
    to = folder.places / ("deeper/" * chance.randint(0, 2)) / f"copy{folder.copies}"
    shutil.copytree(folder.path, to, copy_function=chance.choice([shutil.copy, shutil.copy2]), symlinks=True)
    shutil.rmtree(folder.path)
    folder.path = to
    return f"copied to {to}"


def link(folder: Folder, chance: random.Random) -> str:
    """Results on another disk, linked back; or the other way round."""
    results = folder.path / "results"
    if results.is_symlink():
        target = results.resolve()
        results.unlink()
        shutil.move(target, results)
        return "results moved back"
    if not results.exists():
        return "no results to link"
    folder.copies += 1
    shutil.move(results, folder.places / f"elsewhere{folder.copies}")
    results.symlink_to(folder.places / f"elsewhere{folder.copies}")
    return "results linked"


def forget(folder: Folder, chance: random.Random) -> str:
    shutil.rmtree(folder.path / ".snakemake", ignore_errors=True)
    return "deleted .snakemake"


def kill(folder: Folder, chance: random.Random) -> str:
    seconds = chance.uniform(0.1, 8.0)
    tried = folder.model.stale() | folder.model.maybe()
    run = folder.start()
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run, signal.SIGKILL)
    dry_runs.wait(run)
    time.sleep(0.2)
    folder.model.broke_off()
    folder.forget_missing(tried)
    return f"killed after {seconds:.1f} s"


def fill_disk(folder: Folder, chance: random.Random) -> str:
    """A run with its results on a full disk, or one that fills up."""
    results, disk = folder.path / "results", folder.places / "disk"
    if results.is_symlink() or not results.exists():
        return "no results to put on a disk"
    disk.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", disk], stderr=subprocess.DEVNULL).returncode:
        return "no disk can be mounted"
    free = chance.choice([0, 0, 40_960, 1_048_576])
    model = folder.model
    try:
        shutil.copytree(results, disk / "results", symlinks=True)
        shutil.rmtree(results)
        results.symlink_to(disk / "results")
        size = shutil.disk_usage(disk).used + free
        subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)
        done = folder.run()
        results.unlink()
        shutil.copytree(disk / "results", results, symlinks=True)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    output = done.stdout + done.stderr
    assert "Traceback" not in output, output
    if done.returncode:
        assert model.dies() or "disk is full" in output or "No space left" in output, output
        tried = model.stale() | model.maybe()
        model.broke_off()
        folder.forget_missing(tried)
    else:
        assert free or not model.anything(), output
        model.ran()
    return f"a disk with {free} bytes left: {done.returncode}"


def build_only(folder: Folder, chance: random.Random) -> str:
    """A run that makes the builds only; an existing report becomes stale."""
    model, tried = folder.model, folder.model.stale()
    reported, unsure = model.reported, model.unsure
    done = folder.run("compiled")
    assert (done.returncode != 0) is model.dies(), done.stdout + done.stderr
    model.ran()
    folder.forget_missing(tried)
    model.reported, model.unsure = None if tried else reported, unsure
    return f"only built: {sorted(tried)}"


def race(folder: Folder, chance: random.Random) -> str:
    """Two runs at once.

    One of them makes what is stale, the other one does nothing or is refused.
    """
    runs, tried = [], folder.model.stale() | folder.model.maybe()
    for _ in range(2):
        runs.append(folder.start())
        time.sleep(chance.uniform(0.0, 3.0))
    statuses = [dry_runs.wait(run) for run in runs]
    assert folder.model.dies() or 0 in statuses, (folder.places / "message").read_text()
    folder.model.ran()
    folder.forget_missing(tried)
    return f"two runs at once: {statuses}"


CHANGES = (damage_build, damage_build, damage_folder, damage_report, damage_any, edit, edit, take, sweep, upgrade)
HARMLESS = (touch, touch, comment, copy, link, forget)
RUNS = (kill, fill_disk, race, build_only)
DONE = (*CHANGES, *HARMLESS, *RUNS)


def compare(folder: Folder) -> str:
    """How what a dry run announces differs from what the model says.

    Empty if it does not.
    """
    model = folder.model
    builds, anything, message = folder.announced()
    for build in model.maybe():  # the dry run says whether a run that broke off made it
        needs = model.planned()[build]
        model.made[build] = model.made[build] - {needs} if build in builds else {needs}
    if builds != (stale := model.stale()):
        return f"builds announced: {sorted(builds)}, stale by the model: {sorted(stale)}\n{message[-1200:]}"
    if model.anything() not in (None, anything):
        return f"anything announced: {anything}, by the model: {model.anything()}\n{message[-1200:]}"
    return ""


def against_clean(folder: Folder, source: Path, place: Path) -> dict[str, str]:
    """Files that differ from a run in a new folder, and how."""
    fresh = Folder(place, source, folder.model)
    done = fresh.run()
    assert done.returncode == 0, done.stdout + done.stderr
    results, expected = folder.results(), fresh.results()
    shutil.rmtree(fresh.path)
    differences = {name: first_difference(results.get(name, ""), text) for name, text in expected.items()}
    return {name: message for name, message in differences.items() if message}


@pytest.mark.fault(
    "Results",
    "edits, dates, copies, links, upgrades, kills, full disks and concurrent runs at random",
    "what a model calls stale is remade, and nothing else",
)
@pytest.mark.slow
def test_after_whatever_happens_what_is_stale_is_made_and_nothing_else(tmp_path) -> None:
    chance, until = random.Random(SEED), time.monotonic() + SECONDS
    source = copy_project(tmp_path / "source")  # what is tested stays as it is, whoever edits it meanwhile
    folder = Folder(tmp_path / "place/folder", source, Model())
    folder.announced()
    (source / LOOKED_AT).parent.mkdir(exist_ok=True)
    shutil.copy(folder.path / LOOKED_AT, source / LOOKED_AT)  # new folders need not read all code again
    history: list[str] = []
    runs = 0

    def agree() -> None:
        difference = compare(folder)
        assert not difference, "\n".join([f"seed {SEED}, {len(history)} actions:", *history[-20:], difference])

    while len(history) < ACTIONS and time.monotonic() < until:
        for _ in range(chance.randint(1, MOST_AT_ONCE)):
            history.append(chance.choice(DONE)(folder, chance))
            if chance.random() < CHECKED:
                agree()
            if time.monotonic() > until:
                break
        agree()
        tried, dies = folder.model.stale(), folder.model.dies()
        done = folder.run()
        reported = "\n".join([f"seed {SEED}:", *history[-20:], done.stdout[-2000:], done.stderr[-2000:]])
        assert (done.returncode != 0) is dies, reported
        folder.model.ran()
        folder.forget_missing(tried)
        history.append("run")
        print(f"seed {SEED}: {len(history)} actions, {runs} runs", flush=True)
        agree()
        runs += not dies
        if not dies and (runs == 1 or runs % RUNS_PER_CLEAN == 0):
            assert not (wrong := against_clean(folder, source, tmp_path / f"clean{runs}/folder")), (
                f"{wrong}\n{reported}"
            )
    print(f"seed {SEED}: {len(history)} actions, {runs} whole runs")
