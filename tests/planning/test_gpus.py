"""Several GPUs of one machine.

A job to a GPU, never two, and what is timed is not disturbed by builds.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cutesnake.model.paths import SCRIPTS
from cutesnake.planning import gpus
from cutesnake.planning import machine as machines
from cutesnake.runtime import gpu_slots, locks, machine_check
from cutesnake.runtime.gpu_slots import one_gpu
from project import snakemake

FOUR = Path(__file__).parents[1] / "machines/h200_x4.json"
PROFILES = Path(__file__).resolve().parents[2] / "profiles"


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setenv(machines.MOCK_FILE, str(FOUR))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return machines.probe


def start(code: str, cwd: Path | None = None, **environment: str) -> subprocess.Popen:
    env = {**os.environ, "PYTHONPATH": str(SCRIPTS), **environment}
    pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], env=env, cwd=cwd, **pipes)


def test_cards_are_alike_by_name_memory_and_driver_and_must_be_visible(four, monkeypatch) -> None:
    assert [gpu.index for gpu in four().candidate_devices()] == [0, 1, 2, 3]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "h20000000002,1,4")
    result = four()
    assert result.device.index == 2 and [gpu.index for gpu in result.candidate_devices()] == [1, 2]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4")
    assert [gpu.name for gpu in four().candidate_devices()] == ["NVIDIA A100-SXM4-80GB"]


def test_results_of_cards_alike_are_of_one_kind_and_those_of_others_are_not(four, machine) -> None:
    all_four = four()
    assert all_four.fingerprint == replace(all_four, selected=3).fingerprint
    one = replace(all_four, candidates=(1,), selected=1)
    machine_check.check_gpu(all_four.fingerprint, one)  # what a job sees that has taken the second GPU
    stranger = replace(one, devices=tuple(replace(gpu, uuid_hash="another") for gpu in one.devices))
    with pytest.raises(machine_check.OtherMachineError, match="its number is another here"):
        machine_check.check_gpu(all_four.fingerprint, stranger)
    with pytest.raises(machine_check.OtherMachineError, match="the GPU is NVIDIA B200"):
        machine_check.check_gpu(all_four.fingerprint, machine("b200"))


TAKE = """
import os
from cutesnake.runtime.gpu_slots import one_gpu
from cutesnake.planning.machine import probe
with one_gpu(probe()):
    print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    input()
"""


def test_every_job_has_a_card_of_its_own_and_a_killed_one_gives_it_back(four, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(locks, "GPU_FOLDER", tmp_path)
    code = "from pathlib import Path; from cutesnake.runtime import locks; "
    code += f"locks.GPU_FOLDER = Path({str(tmp_path)!r})"
    running = [start(code + TAKE) for _ in range(4)]
    taken = [job.stdout.readline().decode().strip() for job in running]
    assert sorted(taken) == ["h20000000000", "h20000000001", "h20000000002", "h20000000003"]
    fifth = start(code + TAKE)
    running[2].kill()
    assert fifth.stdout.readline().decode().strip() == taken[2]
    for job in (*running, fifth):
        job.kill()
        job.wait()
    with one_gpu(four()):
        assert machines.probe().device.uuid_hash == "h20000000000" and len(machines.probe().candidate_devices()) == 1
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_job_started_ahead_waits_and_who_has_a_card_does_not_wait_again(tmp_path) -> None:
    code = TAKE.replace('os.environ["CUDA_VISIBLE_DEVICES"]', 'os.environ.get("CUTESNAKE_CARDS")')
    nested = code.replace("    print", "    with one_gpu(probe()): print")
    single = {machines.MOCK_FILE: str(FOUR.with_name("h200.json")), gpu_slots.AT_ONCE: "2"}
    two = [start(nested, tmp_path, **single) for _ in range(2)]
    assert [job.stdout.readline() for job in two] == [b"None\n"] * 2, "what they start would wait for their own turn"
    ahead = start(code, tmp_path, **single)
    os.set_blocking(ahead.stdout.fileno(), False)
    time.sleep(1.0)
    assert not ahead.stdout.readline(), "three measure where two may"
    os.set_blocking(ahead.stdout.fileno(), True)
    two[0].kill()
    assert ahead.stdout.readline() == b"None\n"
    for job in (*two, ahead):
        job.kill()
        job.wait()


def test_jobs_are_started_ahead_where_a_processor_is_left_for_others() -> None:
    counts = {(1, 1): 0, (1, 2): 0, (1, 3): 1, (1, 64): 1, (2, 4): 1, (2, 32): 2, (4, 4): 0, (64, 2): 0}
    assert {case: gpu_slots.started_ahead(*case) for case in counts} == counts


def test_a_card_that_was_changed_is_no_longer_taken(four, monkeypatch) -> None:
    import test_machine

    gpu = four().devices[0]
    monkeypatch.delenv(machines.MOCK_FILE)
    monkeypatch.setitem(sys.modules, "pynvml", test_machine.fake_nvml())
    with pytest.raises(gpus.GpuError, match="GPU 0 differs from before"):
        machines.uuid_of(gpu)


WAIT = """
from cutesnake.runtime.locks import machine_lock
with machine_lock({kind!r}):
    print("mine", flush=True)
    input()
"""


def test_builds_and_timings_take_turns(tmp_path) -> None:
    def begin(kind: str) -> subprocess.Popen:
        return start(WAIT.format(kind=kind), **{locks.MACHINE_LOCKS: str(tmp_path)})

    def has_it(job: subprocess.Popen, within: float) -> bool:
        os.set_blocking(job.stdout.fileno(), False)
        until = time.monotonic() + within
        while time.monotonic() < until:
            if job.stdout.readline():
                return True
            time.sleep(0.02)
        return False

    def end(*jobs: subprocess.Popen) -> None:
        for job in jobs:
            job.kill()
            job.wait()

    builds = [begin(locks.COMPUTING) for _ in range(2)]
    assert all(has_it(job, 5) for job in builds), "builds do not wait for each other"
    timings = [begin(locks.TIMING) for _ in range(2)]
    assert not any(has_it(job, 0.4) for job in timings), "a timing began during a build"
    end(*builds)
    assert all(has_it(job, 5) for job in timings), "timings on two GPUs do not wait for each other"
    late = begin(locks.COMPUTING)
    assert not has_it(late, 0.4), "a build began during a timing"
    end(*timings)
    assert has_it(late, 5)
    end(late)


def test_nobody_waits_where_turns_are_not_asked_for(monkeypatch) -> None:
    monkeypatch.delenv(locks.MACHINE_LOCKS, raising=False)
    with locks.machine_lock(locks.TIMING), locks.machine_lock(locks.COMPUTING):
        pass


def test_profiles_repeat_the_habits_of_the_default_one() -> None:
    import yaml

    default = yaml.safe_load((PROFILES / "default/config.yaml").read_text())
    # Slurm's queue takes all that could start, and weighs them itself.
    for name, others in {"local": {"resources"}, "slurm": {"resources", "scheduler-subsample"}}.items():
        profile = yaml.safe_load((PROFILES / name / "config.yaml").read_text())
        assert {key: profile.get(key) for key in default.keys() - others} == {
            key: value for key, value in default.items() if key not in others
        }
        assert "scheduler-subsample" not in profile or name != "slurm"


@pytest.mark.parametrize(("gpus", "processors", "ahead"), [(4, 32, 4), (4, 1, 0), (4, 7, 2), (1, 2, 0), (1, 8, 1)])
def test_a_processor_is_left_beside_jobs_that_wait_for_a_gpu(gpus, processors, ahead) -> None:
    assert gpu_slots.started_ahead(gpus, processors) == ahead


@pytest.mark.parametrize(("name", "cores", "at_once", "started"), [("h200_x4", "32", 4, 8), ("none", "2", 1, 1)])
def test_the_local_profile_has_as_many_gpu_jobs_as_cards(fresh, name, cores, at_once, started) -> None:
    show = 'print("AT ONCE", os.environ["CUTESNAKE_CARDS"], workflow.global_resources["gpu"].value)'
    (fresh / "Snakefile").write_text((fresh / "Snakefile").read_text() + f"\n{show}\n")
    done = snakemake(fresh, "--dry-run", "--workflow-profile", "profiles/local", "--cores", cores, machine=name)
    assert done.returncode == 0, done.stderr
    assert f"AT ONCE {at_once} {started}" in done.stdout
    assert json.loads(FOUR.read_text())["selected"] == 0
