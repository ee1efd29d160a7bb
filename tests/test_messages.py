"""What is refused is refused in one line that says what would be right; what Snakemake itself says of its files."""

import json
import os
import subprocess
import sys

import pytest

from cutesnake.plan import machine
from project import ROOT, snakemake


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory; "),
        ("{", "describes no machine"),
        ("[]", "describes no machine"),
        ('{"devices": [{"name": 3}]}', "KeyError: 'compute_capability'"),
        ('{"strange": 3}', "strange"),
        ('{"tools": []}', "tools must be a mapping"),
        ("[" * 100_000, "describes no machine"),
    ],
)
def test_a_pretended_machine_that_is_none(tmp_path, monkeypatch, content, words) -> None:
    path = tmp_path / "machine.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv(machine.PRETENDED, str(path))
    with pytest.raises(machine.MachineError) as caught:
        machine.probe()
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("CUTESNAKE_MACHINE is ")


def test_a_device_of_a_pretended_machine_has_the_right_types(tmp_path, monkeypatch) -> None:
    path = tmp_path / "machine.json"
    device = {"index": 0, "name": "X", "compute_capability": "90", "driver": "1", "memory_bytes": 1}
    path.write_text(json.dumps({"devices": [{**device, "multiprocessors": 1, "uuid_hash": "a"}]}))
    monkeypatch.setenv(machine.PRETENDED, str(path))
    with pytest.raises(machine.MachineError, match="two whole numbers"):
        machine.probe()


BUILD = "elementwise_add/cute/sm_90a/fp32_t256_v4"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"compile/{BUILD}x/build.json", f"{BUILD}x is not planned; nearest: {BUILD}, "),
        (f"correctness/{BUILD}/m3_n1001_fp32.json", f"is not planned; nearest: {BUILD}/m3_n1000_fp32, "),
        ("compare/elementwise_ad.json", "elementwise_ad is not planned; nearest: elementwise_add"),
        ("plan/mla.json", "mla is not planned; nearest: elementwise_add"),
        ("inspect/mla/roofline.json", "mla is not planned; nearest: elementwise_add"),
        (f"autotune/{BUILD}.json", "is not planned; nothing of that kind is"),
    ],
)
def test_a_path_that_is_not_planned_names_the_nearest_that_is(built, path, words) -> None:
    done = snakemake(built, "--dry-run", f"results/{path}")
    assert done.returncode != 0 and words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_locale_does_not_matter(project) -> None:
    for name in ("mla_report.html", "compare/elementwise_add.json", "plan/elementwise_add.json"):
        (project / "results" / name).unlink()
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = snakemake(project, **plain)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UTF-8" in (project / "results/mla_report.html").read_text(encoding="utf-8").upper()


# Snakemake reads these files before any code of the project runs: docs/faults.md says what is seen, and this holds it.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "content", "last"),
    [
        ([], None, "FileNotFoundError: [Errno 2] No such file or directory: '{path}'"),
        ([], "folder", "IsADirectoryError: [Errno 21] Is a directory: '{path}'"),
        ([], b"stages: []\n# \xff\n", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position"),
        ([], b"stages:\n\t- inspect\n", "Config file is not valid JSON or YAML."),
        (["compiled"], b"stages: []\n", "FileNotFoundError: [Errno 2] No such file or directory: 'compiled'"),
    ],
)
def test_what_snakemake_says_of_a_configuration_that_it_cannot_read(tmp_path, arguments, content, last) -> None:
    path = tmp_path / "run.yaml"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1", "--configfile", str(path), *arguments]
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=ROOT, text=True, timeout=60, check=False, **together)
    said = done.stdout.strip().splitlines()
    assert done.returncode != 0 and last.format(path=path) in said[-1]


@pytest.mark.slow
@pytest.mark.parametrize("action", ["--dry-run", "--lint"])
def test_a_folder_that_cannot_be_written_is_named_and_another_one_works(tmp_path, action) -> None:
    """A read-only mount of the project, in a name space of its own, which needs root."""
    mount = f"mount --bind {ROOT} {ROOT} && mount -o remount,ro,bind {ROOT}"
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("mounting needs root, and a system that lets it")
    machine_file = ROOT / "tests/machines/none.json"
    command = f"{sys.executable} -B -m snakemake {action} --cores 1 --config 'operators=[elementwise_add]' {{}}"

    def run(more: str) -> subprocess.CompletedProcess:
        script = f"{mount} && cd {ROOT} && {command.format(more)}"
        environment = {**os.environ, machine.PRETENDED: str(machine_file)}
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", script], env=environment, capture_output=True, text=True, timeout=60
        )

    first = run("")
    said = first.stdout + first.stderr
    assert f"{ROOT} cannot be written, and Snakemake keeps notes there even for a dry run" in said
    elsewhere = run(f"--directory {tmp_path}")
    assert elsewhere.returncode == 0 and "cannot be written" not in elsewhere.stdout + elsewhere.stderr
