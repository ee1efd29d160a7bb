"""A copy of the project to run Snakemake in, and its output."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dry_runs

ROOT = Path(__file__).resolve().parents[1]
TINY = "tests/configs/tiny.yaml"
OWN_OUTPUT = "--printshellcmds"  # has Snakemake say what it says by itself, job by job
TREE = (
    "Snakefile",
    "kernels",
    "workflow",
    "config",
    "envs",
    "tests/configs",
    "tests/machines",
    "recorded",
    "ptxsim",
    "profiles",
)


LOOKED_AT = ".snakemake/cutesnake-looked-at.json"
SEED: list[bytes] = []  # what a run noted of the contents of code files, for copies of the project made later


def snakemake(project: Path, *arguments: str, machine: str = "none", **environment: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "CUTESNAKE_MACHINE": str(project / "tests/machines" / f"{machine}.json"), **environment}
    message = ["--cores", "1", *arguments, "--configfile", TINY]
    if "--dry-run" in arguments:
        done = dry_runs.run(message, project, env)
        if not SEED and (project / LOOKED_AT).exists():
            SEED.append((project / LOOKED_AT).read_bytes())
        return done
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *message], cwd=project, env=env, capture_output=True, text=True
    )


def announced(project: Path, *arguments: str, **options: str) -> str:
    """What Snakemake by itself says of each job in a dry run."""
    return snakemake(project, "--dry-run", OWN_OUTPUT, *arguments, **options).stdout


def jobs(project: Path, *arguments: str, **options: str) -> dict[str, int]:
    """Rule -> number of jobs that a dry run announces."""
    done = snakemake(project, "--dry-run", *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    table = re.search(r"Job stats:\njob +count\n-+ +-+\n(.*?)\n\n", done.stdout, re.DOTALL)
    rows = (line.split() for line in table.group(1).splitlines()) if table else ()
    return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}


def copy_project(to: Path) -> Path:
    """The project as it is in the working tree, without results."""
    to.mkdir(parents=True, exist_ok=True)
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, to / name)
    if SEED:
        (to / LOOKED_AT).parent.mkdir()
        (to / LOOKED_AT).write_bytes(SEED[0])
    return to


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
