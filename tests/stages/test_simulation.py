"""Correctness by simulation.

Which cases are planned where, what a record says, and that what is wrong fails.
"""

import ctypes
import dataclasses
import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
import yaml

import ptxsim
from builds import build, served, simulate
from cutesnake.model import inputs, record
from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.model.contract import Variant
from cutesnake.model.paths import ROOT
from cutesnake.planning import arch
from cutesnake.planning import config as configuration
from cutesnake.planning.matrix import Plan, make_plan
from cutesnake.planning.staleness import closure, code_of
from cutesnake.stages.compile.compile import compile_build
from cutesnake.stages.measure import stage
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation

DEFAULT = {
    **yaml.safe_load((ROOT / "config" / "config.yaml").read_text()),
    "operators": ["mla_decode", "elementwise_add"],
    "sweeps": {"elementwise_add": {"kernels": ["cute", "cutile"]}},
}
SETTINGS = {"schedules": ["random", "late"], "seeds": [0], "distributions": ["randn"]}


@pytest.fixture
def plan(machine, tmp_path):
    def make(name: str, tools: dict | None = None, **changes) -> Plan:
        local = machine(name)
        local = dataclasses.replace(local, tools=tools) if tools is not None else local
        return make_plan(configuration.check({**DEFAULT, **changes}), local)

    return make


def simulated(result: Plan) -> dict[tuple[str, str], list[str]]:
    """(kernel, target) -> workloads."""
    cases: dict[tuple[str, str], list[str]] = {}
    for case in result.simulated.values():
        cases.setdefault((case.build.kernel, case.build.target), []).append(case.workload.id)
    return cases


ADD, FP16, FP8, SM90 = "cute", "cutlass_fp16", "cutlass_fp8", "cute_sm90"
TILE = ("cutile", "tilegym", "tilegym_split_kv")
HOPPER = {(kernel, "sm_90a") for kernel in (ADD, SM90)}
BLACKWELL = {(kernel, "sm_100a") for kernel in (ADD, FP16, FP8, "cute_sm100", *TILE)}


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("none", HOPPER | BLACKWELL),
        ("rtx5090", HOPPER | BLACKWELL),
        ("h200", BLACKWELL),
        ("b200", HOPPER),
    ],
)
def test_what_the_card_here_does_not_run_is_simulated(plan, name, kernels) -> None:
    assert set(simulated(plan(name))) == kernels


def test_a_simulated_case_needs_no_card_and_a_case_for_the_card_is_not_simulated(plan) -> None:
    result = plan("h200")
    on_the_gpu = {case.key for case in result.cases_to_run("correctness")}
    assert on_the_gpu and not on_the_gpu & set(result.simulated)
    for key in result.simulated:
        assert result.case(key).build.target == "sm_100a"


def test_the_short_list_needs_no_build_of_its_own_but_where_sizes_are_compiled_in(plan) -> None:
    """Simulation is on by default: it should not make the default experiment compile more."""
    without = plan("none", simulation={**DEFAULT["simulation"], "extent": "none"})
    assert not without.simulated
    more = set(plan("none").builds) - set(without.builds)
    assert {key.split("/")[1] for key in more} == {"tilegym", "tilegym_split_kv"}


def test_both_ways_through_nvidias_kernels_are_checked(plan) -> None:
    """Split over CTAs with a reduction, and directly; and shuffled pages."""
    variants = {case.build.variant.id for case in plan("none").simulated.values() if case.build.kernel in (FP16, FP8)}
    assert variants == {"fp16_split", "fp16_direct", "fp8_split", "fp8_direct"}
    assert any(w.endswith("paged") for w in simulated(plan("none"))[FP16, "sm_100a"])


def test_the_full_list_is_one_switch_away(plan) -> None:
    result = simulated(plan("none", simulation={**DEFAULT["simulation"], "extent": "full"}))
    lengths = (1, 63, 64, 65, 257, 1024)
    for kernel, dtype in ((FP16, "fp16"), (FP8, "fp8")):
        wanted = {f"b{b}_q1_s{s}_{dtype}{pages}" for b in (1, 2) for s in lengths for pages in ("", "_paged")}
        wanted |= {f"b1_q1_s9000_{dtype}_paged"}
        assert set(result[kernel, "sm_100a"]) == wanted


def test_only_where_correctness_is_wanted(plan) -> None:
    assert not plan("none", stages=["inspect"]).simulated
    without = {key: value for key, value in DEFAULT.items() if key != "simulation"}
    assert configuration.check(without).simulation is None


def test_cutiles_builds_for_hopper_are_simulated_where_the_configuration_takes_them_in(plan) -> None:
    def cutile(result, target):
        return {key for key in result.simulated if f"/cutile/{target}/" in key}

    result = plan("none")
    assert cutile(result, "sm_100a") and not cutile(result, "sm_90a")
    why = next(d for d in result.decisions if (d.kernel, d.target) == ("cutile", "sm_90a")).simulate
    assert not why.ok and "simulation={short: {without: {cutile: []}}}" in why.reason
    chosen = {**DEFAULT["simulation"], "short": {**DEFAULT["simulation"]["short"], "without": {"cutile": []}}}
    assert cutile(plan("none", simulation=chosen), "sm_90a")


def test_the_plan_lists_them(plan) -> None:
    listed = plan("none").of("mla_decode")["simulated_cases"]
    assert {"build": "mla_decode/cutlass_fp16/sm_100a/fp16_direct", "workload": "b1_q1_s65_fp16"} in listed


@pytest.mark.parametrize(
    ("dsl", "target", "lacking", "message"),
    [
        ("cutile", "sm_100a", ("cuda-bindings",), "cuda-bindings is not installed here"),
        ("torch", "sm_90a", (), "there is no build to simulate"),
        ("cute", "sm_120a", (), "not sm_120a"),
        ("cute", "sm_100a", ("gcc",), "a C compiler (cc, gcc, clang) is not installed here"),
        ("cute", "sm_100a", ("torch",), "torch is not installed here"),
    ],
)
def test_why_something_cannot_be_simulated_is_a_sentence(machine, dsl, target, lacking, message) -> None:
    local = machine("none")
    local = dataclasses.replace(
        local,
        tools={tool: path for tool, path in local.tools.items() if tool not in lacking},
        packages={name: version for name, version in local.packages.items() if name not in lacking},
    )
    reply = arch.can_simulate(local, SimpleNamespace(DSL=dsl), target)
    assert not reply.ok and message in reply.reason


def test_without_a_compiler_nothing_is_simulated(plan) -> None:
    result = plan("none", tools={})
    assert not result.simulated
    assert {d.simulate.reason for d in result.decisions if d.dsl == "cute" and d.build.ok} == {
        "a C compiler (cc, gcc, clang) is not installed here: checking by simulation needs it"
    }


def test_the_schedules_of_the_configuration_are_those_of_the_simulator() -> None:
    assert set(get_args(inputs.Schedule)) == {*ptxsim.SCHEDULES, simulation.SEARCH}


def test_the_simulators_code_makes_simulated_cases_stale_and_no_others() -> None:
    files = {path.name for path in closure("cutesnake.stages.simulate.simulation")}
    assert {"tcgen05.py", "stub.c"} <= files
    assert "tcgen05.py" not in {path.name for path in closure("cutesnake.stages.measure.correctness")}
    assert code_of("cutesnake.stages.simulate.simulation") != code_of("cutesnake.stages.measure.correctness")


# Builds: `elementwise_add` takes seconds to compile, NVIDIA's kernels longer.


def identity(operator: str, kernel: str, target: str, variant: Variant, **parameters) -> dict:
    return {
        **{"operator": operator, "kernel": kernel, "target": target, "parameters": parameters},
        "variant": {"id": variant.id, "params": dict(variant.params)},
    }


@pytest.fixture(scope="session")
def add(tmp_path_factory) -> tuple[Path, dict]:
    """(folder of a build, identity of a small case)."""
    module = load_kernel("elementwise_add", "cute")
    known = identity("elementwise_add", "cute", "sm_100a", Variant("", {}), rows=3, columns=1000)
    case = Case(stage="correctness", build="", settings=SETTINGS, **known)
    variant = module.variants(case.workload, "sm_100a")[0]
    folder = tmp_path_factory.mktemp("add") / "results/compile/elementwise_add/cute/sm_100a" / variant.id
    with served():
        compile_build("elementwise_add", "cute", "sm_100a", variant, folder)
    return folder, {**known, "variant": {"id": variant.id, "params": dict(variant.params)}}


def check(folder: Path, known: dict, output: Path, **settings) -> dict:
    stage.run_stage(
        "correctness",
        known,
        {**SETTINGS, **settings},
        folder / "build.json",
        output / "record.json",
        backend="ptxsim",
        log=output / "log",
    )
    return record.plain(record.read("correctness", output / "record.json"))


def test_a_right_kernel_is_right_and_its_record_says_how_that_is_known(add, tmp_path) -> None:
    result = check(*add, tmp_path, distributions=["randn", "large"], seeds=[0, 1])
    assert (result["status"], result["backend"], result["device"]) == ("ok", "ptxsim", None)
    metrics = result["metrics"]
    assert metrics["passed"] == 4 and metrics["deterministic"]
    assert all(c["schedules"] == ["random", "late"] and c["findings"] == [] for c in metrics["checks"])
    counted = metrics["simulated"]
    assert counted["launches_run"] == 8 and len(counted["launches"]) == 1
    assert counted["launches"][0]["global_read_unique_bytes"] == counted["cost"]["bytes_read"] == 24_000
    assert "schedule late" in (tmp_path / "log").read_text()


def edited(folder: Path, to: Path, pattern: str, replacement: str) -> Path:
    """Return a copy of a build whose PTX is edited."""
    ptx = Path(shutil.copytree(folder, to)) / "kernel.ptx"
    text, count = re.subn(pattern, replacement, ptx.read_text())
    assert count
    ptx.write_text(text)
    return to


def test_a_wrong_instruction_is_a_wrong_result(add, tmp_path) -> None:
    folder, known = add
    mutant = edited(folder, tmp_path / "mutant", r"\badd\.(rn\.)?f32x2\b", "mul.rn.f32x2")
    result = check(mutant, known, tmp_path)
    assert result["status"] == "failed" and "error of c is" in result["reason"]


@pytest.fixture
def meddle(monkeypatch):
    """`meddle(change)`: after every simulated run, `change(launches, result, schedule)`."""
    run = ptxsim.run

    def use(change) -> None:
        def running(launches, schedule, seed, **options):
            result = run(launches, schedule, seed, **options)
            change(launches, result, schedule)
            return result

        monkeypatch.setattr(ptxsim, "run", running)

    return use


def test_an_element_that_is_wrong_under_one_schedule_only_fails(add, tmp_path, meddle) -> None:
    def spoil(launches, result, schedule) -> None:
        if schedule == "late":
            (output,) = (a for a in launches[0].memory.allocations if a.name == "c")
            ctypes.memset(output.address + 4000, 0x7F, 4)

    meddle(spoil)
    result = check(*add, tmp_path)
    assert result["status"] == "failed" and result["metrics"]["deterministic"] is False
    assert result["metrics"]["checks"][0]["outputs"]["c"]["worst_index"] == [1, 0]


def test_a_finding_fails_a_case_whose_numbers_are_right(add, tmp_path, meddle) -> None:
    def find(launches, result, schedule) -> None:
        if schedule == "late":
            result.findings.append(ptxsim.Finding("race", "warp 1 reads what warp 0 writes", "kernel", 12))

    meddle(find)
    result = check(*add, tmp_path)
    assert result["status"] == "failed" and result["metrics"]["checks"][0]["relative_error"] == 0
    assert "schedule late: race: warp 1 reads what warp 0 writes (kernel, PTX line 12)" in result["reason"]


def test_what_the_simulator_does_not_know_fails_with_its_words(add, tmp_path) -> None:
    folder, known = add
    newer = edited(folder, tmp_path / "newer", r"\badd\.(rn\.)?f32x2\b", "frob.f32x2")
    result = check(newer, known, tmp_path)
    assert result["status"] == "failed" and "ptxsim cannot run it: " in result["reason"]
    assert result["metrics"]["checks"][0]["unknown_opcode"] == "frob.f32x2"
    assert "unknown opcode frob.f32x2: «frob" in result["reason"]


def test_a_case_that_takes_too_long_is_ended(add, tmp_path, monkeypatch) -> None:
    def forever(*_, **__):
        while True:
            pass

    monkeypatch.setattr(ptxsim, "run", forever)
    folder, known = add
    case = Case(stage="correctness", build=str(folder), settings=SETTINGS, **known)
    result = simulation.simulate(case, limit_s=0.5)
    assert result["status"] == "failed" and "time limit of 0.5 s" in result["reason"]


def test_a_limit_of_processor_time_does_not_count_waiting() -> None:
    with simulation.time_limit(0.1, processor=True):
        time.sleep(0.2)
    limit = simulation.time_limit(0.1, processor=True)
    with pytest.raises(simulation.NotSimulatedError, match="processor time"), limit:
        while True:
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_time_limit_that_strikes_in_a_finalizer_strikes_again() -> None:
    class Slow:
        def __del__(self) -> None:
            while True:  # what is raised here is dropped by Python
                pass

    with pytest.raises(simulation.NotSimulatedError, match="time limit"), simulation.time_limit(0.2):
        Slow()
        while True:
            pass


@pytest.fixture(scope="session")
def cutlass() -> tuple[Path, dict]:
    """Return the FP16 kernel's unsplit build and its smallest workload's identity."""
    known = {"batch": 1, "kv_length": 65, "dtype": "fp16"}
    case = Case("correctness", "mla_decode", FP16, "sm_100a", {"id": "", "params": {}}, known, "")
    variant = load_kernel("mla_decode", FP16).variants(case.workload, "sm_100a")[0]
    return build("mla_decode", FP16, "sm_100a", variant), identity("mla_decode", FP16, "sm_100a", variant, **known)


@pytest.mark.slow
def test_nvidias_kernel_is_right_without_an_sm100_card(cutlass, tmp_path) -> None:
    result = check(*cutlass, tmp_path, schedules=["random", "tma_late"])
    assert result["reason"] is None
    counted = result["metrics"]["simulated"]
    assert sum(launch["mma_flops"] for launch in counted["launches"]) == 2 * 128 * 128 * (576 + 512)  # one tile of keys
    assert sum(launch["global_read_unique_bytes"] for launch in counted["launches"]) >= counted["cost"]["bytes_read"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r"tcgen05\.dealloc[^;]*;", "", "leak: "),
        (r"cp\.async\.mbarrier\.arrive\.noinc\.shared\.b64\s+\[[^\]]*\];", "", "deadlock: "),
        (r"\blg2\.approx\.(ftz\.)?f32\b", "neg.f32", "of lse is"),
    ],
    ids=["tensor memory is never freed", "an arrival is missing", "another function than log2"],
)
def test_what_is_wrong_with_nvidias_kernel_fails_with_its_words(
    cutlass, tmp_path, pattern, replacement, message
) -> None:
    folder, known = cutlass
    mutant = edited(folder, tmp_path / "mutant", pattern, replacement)
    result = check(mutant, known, tmp_path)
    assert result["status"] == "failed" and message in result["reason"]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_cutile_build_is_simulated_with_the_descriptors_of_its_own_host_code(target) -> None:
    # Our GEMM with an epilogue in cuTile loads and stores by TMA. A wrong product would fail like a finding.
    kernel = load_kernel("gemm_epilogue", "cutile")
    values = {"m": 200, "n": 264, "k": 136, "activation": "silu", "dtype": "bf16"}
    variant = next(iter(kernel.variants(make_workload("gemm_epilogue", values), target)))
    entry = simulate("gemm_epilogue", "cutile", target, variant, values, schedules=("random", "late"))
    assert entry["status"] == "ok", entry["reason"]
    (launch,) = entry["metrics"]["simulated"]["launches"]
    assert launch["tma_instructions"] > 0 and launch["mma_flops"] >= 2 * 200 * 264 * 136


def test_a_search_is_so_many_runs_whose_findings_say_under_which_aim(add, tmp_path, meddle) -> None:
    seen = []

    def find(launches, result, schedule) -> None:
        seen.append(schedule)
        if schedule.startswith("hold:"):
            result.findings.append(ptxsim.Finding("race", "found", "kernel"))

    meddle(find)
    result = check(*add, tmp_path, schedules=["late", "search"], search_runs=3)
    assert seen[:2] == ["late", "random"] and len(seen) == 4
    (entry,) = result["metrics"]["checks"]
    assert entry["schedules"] == ["late", "search 1", "search 2", "search 3"]
    assert all(" under hold:" in text for text in entry["findings"])


def test_what_a_case_never_put_to_the_test_is_a_warning_in_its_record_and_its_log(add, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("ptxsim.core.coverage.Coverage.notes", lambda _: ["mbarrier at 8: the parity never flipped"])
    result = check(*add, tmp_path)
    (warning,) = result["metrics"]["simulated"]["warnings"]
    assert warning.endswith(": mbarrier at 8: the parity never flipped")
    assert f"warning: {warning}" in (tmp_path / "log").read_text()
