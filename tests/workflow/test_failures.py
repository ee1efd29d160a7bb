"""Killed, full, read-only, cut short: a clear line, nothing lost, and the next run finishes."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from project import TINY, append, copy_project, snakemake

pytestmark = pytest.mark.slow


def files(project: Path) -> dict[str, str]:
    """Return results by name, with digests where content has no time and path."""
    result = {}
    for path in sorted((project / "results").rglob("*")):
        if path.is_file() and not {"log", "store"} & set(path.relative_to(project).parts):
            timeless = path.suffix in (".sass", ".svg")
            name = str(path.relative_to(project))
            result[name] = hashlib.sha256(path.read_bytes()).hexdigest() if timeless else "exists"
    return result


def size(project: Path) -> int:
    """Bytes that the results take in whole pages."""
    return sum(-(-path.stat().st_size // 4096) * 4096 + 4096 for path in (project / "results").rglob("*"))


def clear_line(done: subprocess.CompletedProcess, *parts: str) -> None:
    """The run failed and one line of its output has all the parts.

    No traceback of this project's.
    """
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert any(all(part in line for part in parts) for line in output.splitlines()), output
    assert "Traceback" not in output


@pytest.mark.fault("Machine", "a run is killed", "the next run continues")
@pytest.mark.parametrize("seconds", [2.5, 9])
def test_killed_and_started_again(built, tmp_path, seconds) -> None:
    # SIGKILL to the whole process group at some moment. The second run ends with the same files as one in peace.
    project = copy_project(tmp_path / "project")
    env = {**os.environ, "CUTESNAKE_MACHINE": str(project / "tests/machines/none.json")}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--configfile", TINY]
    run = subprocess.Popen(
        command, cwd=project, env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    finished = {name: (project / name).stat().st_mtime_ns for name in files(project) if name.endswith("build.json")}
    done = snakemake(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(project) == files(built)
    unchanged = [name for name, when in finished.items() if (project / name).stat().st_mtime_ns == when]
    assert len(unchanged) >= len(finished) - 1  # at most the one that was being finished is made again
    assert "Nothing to be done" in snakemake(project).stderr


@pytest.mark.fault("Machine", "two runs in one folder", "the second is refused")
def test_two_runs_in_one_folder(project) -> None:
    (project / "results/mla_report.html").unlink()
    hold = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, time; f = open('.snakemake/cutesnake.lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
            "print('held', flush=True); time.sleep(60)",
        ],
        cwd=project,
        stdout=subprocess.PIPE,
    )
    try:
        hold.stdout.readline()
        clear_line(snakemake(project), "another run is under way in this folder")
    finally:
        hold.kill()
        hold.wait()
    assert snakemake(project).returncode == 0  # the lock went with its process


@pytest.fixture
def small_disk(tmp_path):
    """`small_disk(options)` mounts a tmpfs; it needs root, which CI has."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root")
    mounted: list[Path] = []

    def mount(name: str, options: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this container may not mount: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.fault("Machine", "the disk is full", "one line; finished results stay")
def test_full_disk(project, small_disk) -> None:
    disk = small_disk("disk", f"size={size(project) + (1 << 20)}")
    for name in ("arch.json", "mla_report.html"):
        (project / "results" / name).unlink()
    shutil.copytree(project / "results", disk / "results", copy_function=shutil.copy2)
    shutil.rmtree(project / "results")
    (project / "results").symlink_to(disk / "results")
    before = files(project)
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream, pytest.raises(OSError, match="No space left"):
        while stream.write(b"\0" * 4096) == 4096:
            pass
        raise OSError("No space left")
    clear_line(snakemake(project), "the disk is full")
    assert before.items() <= {**before, **files(project)}.items() and set(before) <= set(files(project))
    filler.unlink()
    done = snakemake(project)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.fault(
    "Machine", "the disk is read-only, or a stale result is write-protected", "named before the first job"
)
def test_read_only_results(project, small_disk) -> None:
    disk = small_disk("disk", f"size={size(project) + (4 << 20)}")
    (project / "results/mla_report.html").unlink()
    shutil.copytree(project / "results", disk / "results", copy_function=shutil.copy2)
    shutil.rmtree(project / "results")
    (project / "results").symlink_to(disk / "results")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    clear_line(snakemake(project), "results", "cannot be written")
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    done = snakemake(project)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    done = snakemake(project)
    assert done.returncode == 0 and "Nothing to be done" in done.stderr
    append(project / "workflow/scripts/cutesnake/report/formatting.py", "\nCHANGED = 1\n")
    done = snakemake(project)
    message = done.stdout + done.stderr
    assert done.returncode != 0 and "Write-protected output files" in message and "Traceback" not in message


def test_truncated_files_are_made_again(project) -> None:
    build = next((project / "results/compile/elementwise_add/cute").rglob("build.json"))
    cubin = next((project / "results/compile/elementwise_add/cutile").rglob("kernel.cubin"))
    for path in (build, cubin):
        path.write_bytes(path.read_bytes()[:100])
    done = snakemake(project)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("made again"))
    assert "not a whole JSON file" in line and "kernel.cubin is not the file that was made" in line


def test_a_wheel_with_the_wrong_hash(tmp_path) -> None:
    project = copy_project(tmp_path / "project")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "tilegym-1.5.1-py3-none-any.whl").write_bytes(b"not the wheel")
    done = snakemake(
        project, "results/fetch/tilegym/fetched.json", CUTESNAKE_WHEELS=str(wheels), PIP_NO_INDEX="1", PIP_FIND_LINKS=""
    )
    clear_line(done, "sha256")
    assert not list((project / "results/fetch").rglob("*.py"))


def test_no_network_with_everything_fetched(project) -> None:
    """Proxies that answer nothing: a run that needs nothing from outside does not notice."""
    (project / "results/mla_report.html").unlink()
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "ALL_PROXY")}
    assert snakemake(project, PIP_NO_INDEX="1", **nowhere).returncode == 0
