"""What is refused is refused in one line that says what would be right."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutesnake.planning import command_line, machine
from project import ROOT, append, snakemake


@pytest.mark.fault("Configuration", "`CUTESNAKE_MACHINE` that is no machine", "one line")
@pytest.mark.parametrize(
    ("content", "message"),
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
def test_a_pretended_machine_that_is_none(tmp_path, monkeypatch, content, message) -> None:
    path = tmp_path / "machine.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv(machine.MOCK_FILE, str(path))
    with pytest.raises(machine.MachineError) as caught:
        machine.probe()
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("CUTESNAKE_MACHINE is ")


def test_a_device_of_a_pretended_machine_has_the_right_types(tmp_path, monkeypatch) -> None:
    path = tmp_path / "machine.json"
    device = {"index": 0, "name": "X", "compute_capability": "90", "driver": "1", "memory_bytes": 1}
    path.write_text(json.dumps({"devices": [{**device, "multiprocessors": 1, "uuid_hash": "a"}]}))
    monkeypatch.setenv(machine.MOCK_FILE, str(path))
    with pytest.raises(machine.MachineError, match="two whole numbers"):
        machine.probe()


BUILD = "elementwise_add/cute/sm_90a/fp32_t256_v4"


@pytest.mark.fault("Configuration", "a path that is not planned", "one line with the nearest planned ones")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"compile/{BUILD}x/build.json", f"{BUILD}x is not planned; nearest: {BUILD}, "),
        (f"correctness/{BUILD}/m3_n1001_fp32.json", f"is not planned; nearest: {BUILD}/"),
        (f"correctness/{BUILD}/m3_n1000_fp32.json", "ask for results/batch/simulated/elementwise_add/cute/sm_90a.json"),
        ("compare/elementwise_ad.json", "elementwise_ad is not planned; nearest: elementwise_add"),
        ("plan/mla.json", "mla is not planned; nearest: elementwise_add"),
        ("inspect/mla/roofline.json", "mla is not planned; nearest: elementwise_add"),
        (f"autotune/{BUILD}.json", "is not planned; nothing of that kind is"),
    ],
)
def test_a_path_that_is_not_planned_names_the_nearest_that_is(built, path, message) -> None:
    done = snakemake(built, "--dry-run", f"results/{path}")
    assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr


@pytest.mark.fault("Configuration", "`--cores 0`", "one line; Snakemake would wait forever")
@pytest.mark.slow
def test_no_processor_is_refused(fresh) -> None:
    """Snakemake would wait for ever."""
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "0"], cwd=fresh, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and "--cores 0 leaves no processor for any job" in done.stderr


@pytest.mark.slow
def test_what_is_wrong_in_a_sweep_is_one_line_without_a_place_in_our_files(fresh) -> None:
    value = "sweeps={elementwise_add: {workloads: [{m: 3, columns: 64}]}}"
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--config", value], cwd=fresh, capture_output=True, text=True
    )
    assert done.returncode == 1 and ".smk" not in done.stderr
    line = "config: sweeps.elementwise_add.workloads[0]: unknown key 'm'; allowed: rows, columns"
    assert line in done.stderr.splitlines()


@pytest.mark.slow
def test_the_locale_does_not_matter(project) -> None:
    for name in ("mla_report.html", "compare/elementwise_add.json", "plan/elementwise_add.json"):
        (project / "results" / name).unlink()
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = snakemake(project, **plain)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UTF-8" in (project / "results/mla_report.html").read_text(encoding="utf-8").upper()


CONFIGURATIONS = [
    (None, "run.yaml: No such file or directory"),
    ("folder", "run.yaml: Is a directory"),
    (b"stages: []\n# \xff\n", "run.yaml:2: this is not UTF-8; save the file with that encoding"),
    (b"stages:\n\t- inspect\n", "run.yaml:2: found character '\\t' that cannot start any token; indent with spaces"),
    (b"stages: *all\n", "run.yaml:1: found undefined alias 'all'"),
    (b"- inspect\n", "run.yaml: it must have keys at its top level"),
    (b"", "run.yaml: it must have keys at its top level"),
]


def make(path: Path, content: bytes | str | None) -> Path:
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    return path


@pytest.mark.fault(
    "Configuration", "a `--configfile` that is missing, a folder, empty, a list, or not UTF-8", "one line"
)
@pytest.mark.parametrize(("content", "message"), CONFIGURATIONS)
@pytest.mark.parametrize(
    "form", ["--configfile {}", "--configfiles {}", "--configfile={}", "-n --configfile {} -q all"]
)
def test_a_configuration_that_cannot_be_read_is_one_line(tmp_path, form, content, message) -> None:
    path = make(tmp_path / "run.yaml", content)
    with pytest.raises(SystemExit) as caught:
        command_line.check(form.format(path).split())
    assert message in caught.value.code and "\n" not in caught.value.code
    assert caught.value.code.startswith(f"--configfile {path}")


@pytest.mark.fault("Configuration", "a target after `--configfile` or `--config`", "one line that says where to put it")
def test_a_target_behind_the_files_is_told_from_a_file(tmp_path) -> None:
    path = make(tmp_path / "run.yaml", b"stages: []\n")
    with pytest.raises(SystemExit, match=r"compiled: No such file or directory; .* name targets before it"):
        command_line.check(["--configfile", str(path), "compiled"])
    command_line.check(["compiled", "--configfile", str(path), str(path), "--", "compiled"])
    command_line.check(["--configfile", str(path), "--cores", "1"])


@pytest.mark.fault("Configuration", "`--configfile` or `--config` twice", "refused: Snakemake would ignore the first")
@pytest.mark.parametrize("option", ["--configfile", "--config"])
def test_an_option_that_is_there_twice_is_refused(option, tmp_path) -> None:
    path = make(tmp_path / "run.yaml", b"stages: []\n")
    value = {"--configfile": str(path), "--config": "targets=[]"}[option]
    with pytest.raises(SystemExit, match=f"{option} is there twice, and Snakemake would take the last one alone"):
        command_line.check([option, value, "-n", f"{option}={value}"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("timing.max_seconds=3", "write 'timing={max_seconds: 3}'"),
        ("sweeps.mla_decode.kernels=[cutile]", "write 'sweeps={mla_decode: {kernels: [cutile]}}'"),
        ("compiled", "name targets before it, or after --"),
        ("max seconds=3", "is read as KEY=VALUE, such as"),
    ],
)
def test_what_is_no_key_and_value_is_one_line(entry, message) -> None:
    with pytest.raises(SystemExit) as caught:
        command_line.check(["--cores", "1", "--config", "targets=[sm_90a]", entry, "-n"])
    assert caught.value.code.startswith(f"--config {entry}: ") and message in caught.value.code
    command_line.check(["--config", "targets=[sm_90a]", "timing={max_seconds: 3}", "--", "compiled"])


def test_every_profile_has_the_files_looked_at_in_the_same_way() -> None:
    """A template can include no other file, so the lines stand in each."""
    blocks = {
        re.search(r"^__use_yte__.*?(?=\n\n)", path.read_text(), re.DOTALL | re.MULTILINE).group()
        for path in (ROOT / "profiles").glob("*/config.yaml")
    }
    assert len(blocks) == 1 and "command_line.check(sys.argv[1:])" in blocks.pop()


def test_what_can_be_read_once_only_is_left_to_snakemake() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"stages: []\n")
    os.close(writing)
    command_line.check(["--configfile", f"/dev/fd/{reading}"])
    assert os.read(reading, 100) == b"stages: []\n"
    os.close(reading)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["default", "local", "none"])
def test_snakemake_itself_is_asked_only_without_our_profiles(tmp_path, profile) -> None:
    path = make(tmp_path / "run.yaml", b"stages: []\n# \xff\n")
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1", "--workflow-profile", profile]
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 60}
    done = subprocess.run([*command, "--configfile", str(path)], cwd=ROOT, check=False, **together)
    message = done.stdout.strip().splitlines()
    assert done.returncode != 0
    if profile == "none":
        assert "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position" in message[-1]
    else:
        assert message[-1] == f"--configfile {path}:2: this is not UTF-8; save the file with that encoding"
        assert len(message) == 2, "and the profile that is used"


@pytest.mark.parametrize(("content", "message"), [*CONFIGURATIONS[2:4], *CONFIGURATIONS[5:]])
def test_a_mistake_in_the_configuration_of_the_project_has_its_line(fresh, content, message) -> None:
    make(fresh / "config/config.yaml", content)
    done = snakemake(fresh, "--dry-run")
    message = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in message
    assert message.replace("run.yaml", "config/config.yaml") in message


@pytest.mark.fault("Machine", "a folder without write access", "one line that names `--directory`")
@pytest.mark.slow
@pytest.mark.parametrize("action", ["--dry-run", "--summary", "--lint"])
def test_a_folder_that_cannot_be_written_is_named_and_another_one_works(tmp_path, action) -> None:
    # A read-only mount of the project, in a name space of its own, which needs root.
    mount = f"mount --bind {ROOT} {ROOT} && mount -o remount,ro,bind {ROOT}"
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("mounting needs root, and a system that lets it")
    machine_file = ROOT / "tests/machines/none.json"
    command = f"{sys.executable} -B -m snakemake {action} --cores 1 --config 'operators=[elementwise_add]' {{}}"

    def run(more: str) -> subprocess.CompletedProcess:
        script = f"{mount} && cd {ROOT} && {command.format(more)}"
        environment = {**os.environ, machine.MOCK_FILE: str(machine_file)}
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", script], env=environment, capture_output=True, text=True, timeout=60
        )

    first = run("")
    message = first.stdout + first.stderr
    assert "Traceback" not in message
    refused = f"{ROOT} cannot be written, and Snakemake keeps notes there even for a dry run: name another folder"
    assert (first.returncode == 0, refused in message) == ((False, True) if action != "--lint" else (True, False)), (
        message
    )
    elsewhere = run(f"--directory {tmp_path}")
    assert elsewhere.returncode == 0 and "cannot be written" not in elsewhere.stdout + elsewhere.stderr


@pytest.mark.fault("Machine", "Ctrl-C while a run is planned", "one line")
def test_ctrl_c_while_a_run_is_planned_is_one_line(fresh) -> None:
    kernel = fresh / "kernels/elementwise_add/cutile/__init__.py"
    append(kernel, "\nimport signal\nsignal.raise_signal(signal.SIGINT)\n")
    done = snakemake(fresh, "--dry-run")
    assert done.returncode != 0 and "Interrupted before any job ran." in done.stderr.splitlines()
    assert "Traceback" not in done.stdout + done.stderr
