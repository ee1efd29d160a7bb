"""The arch check on simulated devices, and on this machine."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cutesnake.model.targets import TARGETS, resolve_local_target
from cutesnake.planning.arch import can_build, can_run, decide, stage_abilities

TCGEN05 = SimpleNamespace(DSL="cute", SOURCE="ours", TARGETS={"sm_100a": ("tcgen05", "tensor memory")}, NEEDS={})
WGMMA = SimpleNamespace(DSL="cute", SOURCE="ours", TARGETS={"sm_90a": ("wgmma", "TMA")}, NEEDS={})
PLAIN = SimpleNamespace(DSL="cutile", SOURCE="ours", TARGETS=dict.fromkeys(TARGETS, ()), NEEDS={})
RUNS = {
    **{"b200": "sm_100a", "b300": "sm_103a", "h200": "sm_90a", "rtx5090": "sm_120a", "a100": None, "none": None},
    **{"gb200": "sm_100a", "gb300": "sm_103a", "h100_pcie": "sm_90a", "gh200": "sm_90a", "h20": "sm_90a"},
    **{"rtx_pro_6000": "sm_120a", "gb10": "sm_121a", "thor": "sm_110a", "h100_mig": "sm_90a"},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_plain_kernel_runs_on_its_own_architecture_only(machine, name) -> None:
    running = [target for target in PLAIN.TARGETS if can_run(machine(name), PLAIN, target).ok]
    assert running == ([RUNS[name]] if RUNS[name] else [])


@pytest.mark.parametrize("name", RUNS)
def test_here_is_the_target_of_the_card(machine, name) -> None:
    device = machine(name).device
    result = resolve_local_target(["sm_90a", "sm_100a", "here"], device and device.compute_capability)
    extra = [RUNS[name]] if RUNS[name] not in ("sm_90a", "sm_100a", None) else []
    assert result == ["sm_90a", "sm_100a", *extra]


@pytest.mark.parametrize(
    ("name", "kernel", "target", "sentence"),
    [
        (
            "rtx5090",
            TCGEN05,
            "sm_100a",
            "needs sm_100a for tcgen05 and tensor memory; this device is an RTX 5090, sm_120, which has neither",
        ),
        (
            "h200",
            TCGEN05,
            "sm_100a",
            "needs sm_100a for tcgen05 and tensor memory; this device is an H200, sm_90, which has neither",
        ),
        (
            "b300",
            TCGEN05,
            "sm_100a",
            "needs sm_100a for tcgen05 and tensor memory; this device is a B300 SXM6 AC, sm_103, and code for sm_100a "
            "runs on compute capability 10.0 only",
        ),
        (
            "b200",
            WGMMA,
            "sm_90a",
            "needs sm_90a for wgmma and TMA; this device is a B200, sm_100, which has no wgmma",
        ),
        (
            "a100",
            PLAIN,
            "sm_90a",
            "code for sm_90a runs on compute capability 9.0 only; this device is an A100-SXM4-80GB, sm_80",
        ),
        (
            "unknown",
            TCGEN05,
            "sm_100a",
            "needs sm_100a for tcgen05 and tensor memory; this device is an R200, sm_140, an architecture this version "
            "does not know",
        ),
        (
            "gb10",
            TCGEN05,
            "sm_100a",
            "needs sm_100a for tcgen05 and tensor memory; this device is a GB10, sm_121, which has neither",
        ),
        (
            "thor",
            TCGEN05,
            "sm_100a",
            "needs sm_100a for tcgen05 and tensor memory; this device is a Thor, sm_110, and code for sm_100a runs on "
            "compute capability 10.0 only",
        ),
        ("none", WGMMA, "sm_90a", "no GPU here: no NVIDIA driver is installed"),
    ],
)
def test_the_reason_is_one_sentence_a_person_understands(machine, name, kernel, target, sentence) -> None:
    reply = can_run(machine(name), kernel, target)
    assert not reply.ok
    assert reply.reason == sentence


def test_several_gpus_one_is_used(machine) -> None:
    several = machine("several")
    assert several.device.name == "NVIDIA H200"
    assert can_run(several, WGMMA, "sm_90a").ok
    assert several.fingerprint != machine("a100").fingerprint


def test_a_broken_driver_is_an_answer(machine) -> None:
    broken = replace(machine("none"), problem="the NVIDIA driver does not answer (NVML says: Driver/library mismatch)")
    assert "Driver/library mismatch" in can_run(broken, WGMMA, "sm_90a").reason
    assert not stage_abilities([broken], ["timing"])["timing"].ok


def test_building_needs_the_dsl_and_not_the_gpu(machine) -> None:
    assert can_build(machine("none"), TCGEN05, "sm_100a", built=False).ok
    bare = replace(machine("h200"), packages={**machine("h200").packages, "nvidia-cutlass-dsl": None})
    assert "nvidia-cutlass-dsl is not installed here" in can_build(bare, WGMMA, "sm_90a", built=False).reason
    assert can_build(bare, WGMMA, "sm_90a", built=True).ok  # copied from the machine that compiled it
    assert decide(bare, "mla_decode", "k", WGMMA, "sm_90a", built=True).run.ok
    decision = decide(bare, "mla_decode", "k", WGMMA, "sm_90a", built=False)
    assert not decision.run.ok and decision.run.reason == decision.build.reason


def test_a_target_the_kernel_is_not_written_for(machine) -> None:
    decision = decide(machine("h200"), "mla_decode", "k", TCGEN05, "sm_90a", built=False)
    assert decision.build.reason == "not written for sm_90a: it is for sm_100a (tcgen05 and tensor memory)"
    assert decision.run.reason == decision.build.reason


def test_a_cpu_build_of_torch_cannot_run(machine) -> None:
    h200 = machine("h200")
    wrong = replace(h200, packages={**h200.packages, "torch": "2.13.0+cpu"})
    assert "CPU build" in can_run(wrong, WGMMA, "sm_90a").reason


def test_stages_say_which_tool_they_lack(machine) -> None:
    h200 = machine("h200")
    bare = replace(h200, tools={**h200.tools, "nsys": None})
    replies = stage_abilities([bare], ["correctness", "timing", "nsys"])
    assert replies["timing"].ok
    assert replies["nsys"].reason == "nsys is not installed here (not on the PATH, not in Nsight Compute)"
    assert replies["ncu"].reason == "ncu is not among the stages of the configuration"
