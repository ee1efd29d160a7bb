"""The next run finds missing and damaged results and remakes them."""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutesnake.planning import serialized_plan
from project import append, jobs, snakemake

CORRECT = "results/correctness/elementwise_add/cute/sm_90a/fp32_t256_v4/m3_n1000_fp32.json"
BUILD = "results/compile/elementwise_add/cute/sm_90a/fp32_t256_v4"
INSPECTED = "results/inspect/elementwise_add/cute/sm_90a/fp32_t256_v4.json"
AFTER_COMPARISON = {"compare": 1, "report": 1}
AFTER_CORRECTNESS = {"simulated": 1, **AFTER_COMPARISON}
AFTER_BUILD = {"compile": 1, **AFTER_CORRECTNESS}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path(".snakemake").mkdir()
    return tmp_path


def state(project: Path) -> dict[str, str]:
    """Results by name, with digests of those that hold no time."""
    result = {}
    for path in sorted((project / "results").rglob("*")):
        if path.is_file() and not {"log", "store"} & set(path.relative_to(project).parts):
            timeless = path.suffix in (".sass", ".svg", ".csv")
            result[str(path.relative_to(project))] = hashlib.sha256(path.read_bytes()).hexdigest() if timeless else ""
    return result


def damaged(path: Path) -> None:
    path.write_text("{\n")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def edited(path: Path) -> None:
    """Another number, in a record that still fits its schema."""
    text = path.read_text()
    path.write_text(re.sub(r'("(?:relative_error|seconds|floor_us|workloads)": ?)[\d.e-]+', r"\g<1>7", text, count=1))
    assert path.read_text() != text


def gone(path: Path) -> None:
    path.unlink() if path.is_file() else shutil.rmtree(path)


DAMAGES = [
    (CORRECT, damaged, AFTER_CORRECTNESS),
    (CORRECT, gone, AFTER_CORRECTNESS),
    (f"{BUILD}/build.json", cut, AFTER_BUILD),
    (f"{BUILD}/kernel.cubin", gone, AFTER_BUILD),
    (f"{BUILD}/kernel.ptx", cut, AFTER_BUILD),
    (INSPECTED, cut, {"compile": 1, **AFTER_COMPARISON}),
    ("results/plot/elementwise_add/roofline.svg", gone, AFTER_COMPARISON),
    ("results/compare/elementwise_add.csv", gone, AFTER_COMPARISON),
    ("results/compare/elementwise_add.json", edited, AFTER_COMPARISON),
    (f"{BUILD}/build.json", edited, AFTER_BUILD),
    (CORRECT, edited, AFTER_CORRECTNESS),
    ("results/mla_report.html", cut, {"report": 1}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how", "redone"), DAMAGES)
def test_what_is_lost_is_made_again_with_what_follows(project, name, how, redone) -> None:
    how(project / name)
    assert jobs(project) == redone
    assert jobs(project, "results/mla_report.html") == redone


@pytest.mark.slow
def test_everything_lost_at_once_is_told_in_one_line_and_comes_back(project) -> None:
    before = state(project)
    assert jobs(project) == {}  # what is there has been seen
    for name, how in {name: how for name, how, _ in reversed(DAMAGES)}.items():
        if (project / name).exists():
            how(project / name)
    done = snakemake(project)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("made again"))
    assert f"{BUILD}/build.json (not a whole JSON file" in line and "more" in line
    assert state(project) == before
    assert jobs(project) == {}


@pytest.mark.slow
def test_a_damaged_record_that_a_run_stumbled_over_can_be_deleted(project) -> None:
    """As the message of older versions says: delete it and run again."""
    for name in ("mla_report.html", "compare/elementwise_add.json", "plot/elementwise_add"):
        gone(project / "results" / name)
    gone(project / CORRECT)
    done = snakemake(project)
    assert done.returncode == 0 and (project / CORRECT).exists(), done.stderr


@pytest.mark.slow
def test_a_part_that_was_asked_for_is_not_drawn_into_the_rest(project) -> None:
    gone(project / CORRECT)
    assert jobs(project, "compiled") == {}


@pytest.fixture
def busy(project):
    """The folder while another process has its lock."""
    code = "import fcntl, time; f = open('.snakemake/cutesnake.lock', 'a'); fcntl.flock(f, fcntl.LOCK_EX)"
    code += "; print(1, flush=True)"
    hold = subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(120)"], cwd=project, stdout=subprocess.PIPE)
    hold.stdout.readline()
    yield project
    hold.kill()
    hold.wait()


@pytest.mark.fault("Machine", "`-n`, `--summary`, `--dag`, `--lint` during a run", "no lock")
@pytest.mark.slow
def test_looking_at_the_graph_needs_no_lock(busy) -> None:
    gone(busy / "results/mla_report.html")
    for look in (["--dry-run"], ["--summary"], ["--dag"], ["--lint"], ["--list-rules"]):
        done = snakemake(busy, *look)
        assert "another run" not in done.stderr and done.returncode == 0, (look, done.stderr)
    refused = snakemake(busy)
    assert refused.returncode != 0 and "another run is under way" in refused.stderr
    assert "Traceback" not in refused.stderr and not (busy / "results/mla_report.html").exists()


@pytest.mark.fault("Machine", "`-n`", "no writes below `results/`")
@pytest.mark.slow
def test_a_dry_run_writes_no_results(fresh) -> None:
    assert jobs(fresh)["report"] == 1
    assert not (fresh / "results").exists()


@pytest.mark.slow
def test_a_job_that_an_executor_starts_does_not_take_the_folder(busy) -> None:
    # Jobs under Slurm read the workflow again on their node, while the run that sent them has the lock.
    plan = busy / "results/plan/elementwise_add.json"
    gone(plan)
    (handed_on,) = (busy / serialized_plan.FOLDER).glob("plan-*.json")
    options = [
        "--mode",
        "subprocess",
        "--no-hooks",
        "--force",
        "--nolock",
        "--target-jobs",
        "plan:operator=elementwise_add",
        "--config",
        f"{serialized_plan.KEY}={handed_on.stem}",
    ]
    done = snakemake(busy, *options)
    assert done.returncode == 0 and plan.exists(), done.stderr


@pytest.mark.fault("Machine", "the clock was set back", "files of the future get today's date, in one line")
@pytest.mark.slow
def test_a_clock_that_was_set_back_stops_no_run(project) -> None:
    # Snakemake would refuse what is older than what it is made from, and so every run until that day has come.
    day = time.time() + 86_400
    for path in (*(project / "results").rglob("*"), *(project / "recorded").rglob("*")):
        os.utime(path, (day, day))
    append(project / "workflow/scripts/cutesnake/report/plot/style.py", "\nCHANGED = 1\n")
    done = snakemake(project)
    assert done.returncode == 0 and re.search(r"dated again, .*: \d+ files of the future", done.stderr), done.stderr
    assert "Nothing to be done" in snakemake(project).stderr


def test_nothing_becomes_newer_than_another_file_when_it_is_dated_anew(folder) -> None:
    from cutesnake.runtime import folder as working

    now, (old, soon, late) = time.time(), (Path(name) for name in ("old", "soon", "late"))
    for path, date in ((old, now - 60), (soon, now + 60), (late, now + 90)):
        path.touch()
        os.utime(path, (date, date))
    assert working.bring_back_from_the_future(["old", "soon", "late", "missing", "soon"]) == 2
    assert old.stat().st_mtime == pytest.approx(now - 60, abs=1)
    assert now <= soon.stat().st_mtime == late.stat().st_mtime <= time.time()


@pytest.mark.fault("Machine", "a run planned while another worked", "refused: start it again")
def test_a_plan_is_of_no_use_once_another_run_has_worked_here(folder, monkeypatch) -> None:
    from cutesnake.runtime import folder as working

    monkeypatch.setattr(working, "_kept_open", [])
    planned = working.last_run()
    working.claim(planned)
    os.close(working._kept_open.pop())
    assert working.last_run() != planned
    with pytest.raises(working.FolderError, match="while this one was being planned"):
        working.claim(planned)
    working.claim(working.last_run())
    assert working.last_run() is None
    os.close(working._kept_open.pop())


def test_a_look_takes_nothing_away_from_a_run(folder, monkeypatch) -> None:
    from cutesnake.runtime import folder as working

    monkeypatch.setattr(working, "_kept_open", [])
    Path(working.LOCK).touch()
    with Path(working.LOCK).open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        monkeypatch.setattr(working, "PATIENCE_SECONDS", 0.0)
        with pytest.raises(working.FolderError, match="under way"):
            working.claim("")
    working.claim("")
    os.close(working._kept_open.pop())


def test_a_file_system_without_locks_is_named(folder, monkeypatch) -> None:
    from cutesnake.runtime import folder as working
    from cutesnake.runtime import locks

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(working, "_kept_open", [])
    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with pytest.raises(
        working.FolderError, match=r"keeps no locks \(No locks available\): mount it with them, or make"
    ):
        working.claim("")
