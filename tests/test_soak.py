"""Small things that happen to a folder, in an order that a seed decides: a run then ends as a clean one.

Forty of them, so that the test takes a minute; CONTRIBUTING.md says when more were tried by hand."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from project import TINY, copy_project, snakemake

ACTIONS = int(os.environ.get("CUTESNAKE_SOAK_ACTIONS", "40"))
SEED = int(os.environ.get("CUTESNAKE_SOAK_SEED", "1"))
MOST_AT_ONCE = 6  # actions between two runs
KERNEL = """
from cutesnake.model.contract import Variant
DSL = "cuda"
SOURCE = "ours"
TARGETS = {"sm_90a": ()}

def supports(workload):
    return None

def variants(workload, target):
    return (Variant(f"rows{workload.rows}", {"rows": workload.rows}),)

def compile(variant, target, folder):
    (folder / "note.txt").write_text("VERSION")
    if "VERSION" == "wrong":
        raise ValueError("no such thing")
    return {"symbols": [], "notes": ["VERSION"]}

def bind(build, workload, inputs, outputs):
    raise NotImplementedError
"""
VERSIONS = ("one", "two", "wrong")
ROWS = (3, 5)
TOOK = re.compile(r'"seconds": [\d.]+|Compiled in [\d.]+ s')
TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00|Z| UTC)?")


class Folder:
    """A copy of the project with kernels of a user's own, and what is asked of it."""

    def __init__(self, path: Path, source: Path) -> None:
        self.path = Path(shutil.copytree(source, path))
        self.version = {"ann": "one", "bob": "one"}
        self.taken = ["cutile", "ann"]
        self.rows = [3]
        self.write()

    @property
    def state(self) -> str:
        """All that the results depend on: kernels that are not taken are none of it."""
        return json.dumps([[(kernel, self.version.get(kernel)) for kernel in self.taken], self.rows])

    def write(self) -> None:
        mine = self.path / "mine/elementwise_add"
        mine.mkdir(parents=True, exist_ok=True)
        for name, version in self.version.items():
            (mine / f"{name}.py").write_text(KERNEL.replace("VERSION", version))

    def arguments(self) -> list[str]:
        workloads = [{"rows": self.rows, "columns": 1000}]
        sweep = {"kernels": self.taken, "dtypes": ["fp32"], "workloads": workloads, "profile": []}
        chosen = [f"sweeps={json.dumps({'elementwise_add': sweep})}", "kernel_paths=[mine]", "stages=[inspect]"]
        return ["--config", *chosen, "simulation={extent: none}"]

    def run(self) -> subprocess.CompletedProcess:
        return snakemake(self.path, *self.arguments())

    def results(self) -> dict[str, str]:
        """Every file, less times and what took how long."""
        found = {}
        for path in sorted((self.path / "results").rglob("*")):
            name = str(path.relative_to(self.path))
            if path.is_file() and not {"log", "store"} & set(Path(name).parts) and not path.name.startswith("."):
                text = TIMES.sub("TIME", path.read_bytes().decode("latin-1"))
                found[name] = TOOK.sub("TOOK", text)
        return found


def first_difference(text: str, expected: str) -> str:
    """What stands in a file where it begins to differ, empty if it does not."""
    if text == expected:
        return ""
    pairs = enumerate(zip(text, expected, strict=False))
    at = next((place for place, (one, other) in pairs if one != other), min(len(text), len(expected)))
    return f"{text[at - 30 : at + 50]!r} for {expected[at - 30 : at + 50]!r}"


def a_file(folder: Folder, chance: random.Random) -> Path | None:
    results = folder.path / "results"
    files = [path for path in sorted(results.rglob("*")) if path.is_file() and "log" not in path.parts]
    kept = [folder.path / ".snakemake/cutesnake-looked-at.json"]
    files += [path for path in kept if path.exists()]
    return chance.choice(files) if files else None


def delete(folder: Folder, chance: random.Random) -> str:
    path = a_file(folder, chance)
    if path:
        path.unlink()
    return f"deleted {path}"


def delete_folder(folder: Folder, chance: random.Random) -> str:
    path = a_file(folder, chance)
    if path and path.parent.name != ".snakemake":
        shutil.rmtree(path.parent)
    return f"deleted the folder of {path}"


def damage(folder: Folder, chance: random.Random) -> str:
    path = a_file(folder, chance)
    how = chance.choice(["cut", "brace", "emptied", "changed"])
    if path:
        content = path.read_bytes()
        middle = len(content) // 2
        changed = content[:middle] + b"\0?" + content[middle + 2 :]
        new = {"cut": content[: len(content) * 2 // 3], "brace": b"{", "emptied": b"", "changed": changed}
        path.write_bytes(new[how])
    return f"{how}: {path}"


def touch(folder: Folder, chance: random.Random) -> str:
    path = a_file(folder, chance)
    if path:
        path.touch()
    return f"touched {path}"


def edit(folder: Folder, chance: random.Random) -> str:
    folder.version[chance.choice(["ann", "bob"])] = chance.choice(VERSIONS)
    folder.write()
    return f"versions {folder.version}"


def take(folder: Folder, chance: random.Random) -> str:
    folder.taken = ["cutile", *chance.sample(["ann", "bob"], chance.randint(0, 2))]
    return f"kernels {folder.taken}"


def sweep(folder: Folder, chance: random.Random) -> str:
    folder.rows = chance.choice([[3], [5], [3, 5]])
    return f"rows {folder.rows}"


def kill(folder: Folder, chance: random.Random) -> str:
    seconds = chance.uniform(0.5, 12.0)
    env = {**os.environ, "CUTESNAKE_MACHINE": str(folder.path / "tests/machines/none.json")}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *folder.arguments(), "--configfile", TINY]
    with open(os.devnull, "w") as nowhere:
        run = subprocess.Popen(
            command, cwd=folder.path, env=env, start_new_session=True, stdout=nowhere, stderr=nowhere
        )
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    time.sleep(0.2)
    return f"killed after {seconds:.1f} s"


DONE = (delete, delete, delete_folder, damage, damage, damage, touch, edit, take, sweep, kill)


@pytest.mark.slow
def test_after_whatever_happens_a_run_ends_as_a_clean_one(tmp_path) -> None:
    chance = random.Random(SEED)
    source = copy_project(tmp_path / "source")  # what is tested stays as it is, whoever edits it meanwhile
    folder = Folder(tmp_path / "folder", source)
    clean: dict[str, dict[str, str]] = {}  # what is asked -> what a clean run makes of it
    history: list[str] = []
    while len(history) < ACTIONS:
        for _ in range(chance.randint(1, MOST_AT_ONCE)):
            history.append(chance.choice(DONE)(folder, chance))
        done = folder.run()
        told = "\n".join([f"seed {SEED}:", *history[-3 * MOST_AT_ONCE :], done.stderr[-3000:]])
        assert done.returncode == 0, told
        if folder.state not in clean:
            fresh = Folder(tmp_path / f"clean{len(clean)}", source)
            fresh.version, fresh.taken, fresh.rows = dict(folder.version), list(folder.taken), list(folder.rows)
            fresh.write()
            assert fresh.run().returncode == 0
            clean[folder.state] = fresh.results()
            shutil.rmtree(fresh.path)
        results, expected = folder.results(), clean[folder.state]
        wrong = {name: first_difference(results.get(name, ""), text) for name, text in expected.items()}
        assert not any(wrong.values()), f"{ {name: said for name, said in wrong.items() if said} }\n{told}"
