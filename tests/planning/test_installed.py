"""Kernels that a Python package of the machine brings along.

How they are found, planned, called and shown.
"""

import copy
import dataclasses
import json
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

import sample
from cpu_backend import CpuBackend, small_case
from cutesnake.model.catalog import load_kernel
from cutesnake.model.contract import INSTALLED
from cutesnake.model.stages import GPU_STAGES
from cutesnake.planning import machine as machines
from cutesnake.planning import matrix
from cutesnake.planning.arch import decide
from cutesnake.planning.config import check
from cutesnake.report.formatting import Notes
from cutesnake.stages.measure.case import make_record
from cutesnake.stages.measure.correctness import Bound, check_case
from kernels.mla_decode.operator import PAGE, Inputs, Workload, same_precision
from loose import compare, draw_timeline, draw_times, panels, totals, typed, view_times
from loose import view_matrix as matrix_of

PEERS = ("flash_mla", "flashinfer")
CONFIG = {
    "targets": ["sm_90a", "sm_100a"],
    "stages": ["correctness", "timing"],
    "operators": ["mla_decode"],
    "sweeps": {
        "mla_decode": {
            "kernels": [*PEERS, "torch_sdpa"],
            "dtypes": {"sm_90a": ["bf16"], "sm_100a": ["fp16"]},
            "workloads": [{"batch": 4, "kv_length": [1024, 4096]}],
            "profile": [],
        }
    },
    "correctness": {"seeds": [0]},
    "timing": {"max_seconds": 1, "max_noise_percent": 0.5},
}


# Found


def test_packages_are_found_without_importing_them(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "whole_peer").mkdir()
    (tmp_path / "whole_peer/__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "whole_peer-1.2.dist-info").mkdir()
    (tmp_path / "whole_peer-1.2.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: whole_peer\nVersion: 1.2")
    (tmp_path / "mere_folder").mkdir()
    names = {"whole_peer": "whole-peer", "mere_folder": "mere_folder", "no_such_peer": "no_such_peer"}
    assert machines.probe(names).modules == {"whole_peer": "1.2", "mere_folder": None, "no_such_peer": None}


def test_where_the_package_is_missing_one_sentence_says_so(machine) -> None:
    kernel = load_kernel("mla_decode", "flash_mla")
    for name in ("none", "h200"):
        decision = decide(machine(name), "mla_decode", "flash_mla", kernel, "sm_90a", built=True)
        assert not decision.build.ok and not decision.run.ok
        assert decision.build.reason == (
            "flash_mla is not importable here: its kernel is timed where that Python package is installed"
        )


def test_where_the_package_is_there_nothing_else_is_needed_to_build(machine) -> None:
    kernel = load_kernel("mla_decode", "flashinfer")
    packages = {"torch": "2.11.0"}
    there = replace(machine("h200"), modules={"flashinfer": "0.7"}, packages=packages)
    decision = decide(there, "mla_decode", "flashinfer", kernel, "sm_90a", built=False)
    assert decision.build.ok and decision.run.ok
    assert "no build to simulate" in decision.simulate.reason


# Planned


def planned(machine, name: str, modules: dict[str, str], tmp_path) -> matrix.Plan:
    return matrix.make_plan(check(CONFIG), replace(machine(name), modules=modules))


def test_the_machine_is_asked_for_what_the_configured_kernels_need() -> None:
    assert matrix.modules_needed(check(CONFIG)) == {"flash_mla": "flash_mla", "flashinfer": "flashinfer-python"}


@pytest.mark.parametrize("name", ["none", "h200"])
def test_a_missing_package_costs_no_job_and_has_one_decision(machine, name, tmp_path) -> None:
    plan = planned(machine, name, {}, tmp_path)
    assert {b.kernel for b in plan.builds.values()} == {"torch_sdpa"}
    assert not [c for stage in GPU_STAGES for c in plan.cases_to_run(stage) if c.build.kernel in PEERS]
    assert [(d.kernel, d.target) for d in plan.decisions if d.kernel in PEERS] == [(k, "sm_90a") for k in PEERS]
    assert sum(case.build.kernel == "flash_mla" for case in plan.cases.values()) == 2  # for recorded measurements


def test_an_importable_package_turns_its_cases_into_jobs(machine, tmp_path) -> None:
    plan = planned(machine, "h200", {"flash_mla": "1.0"}, tmp_path)
    assert sum(case.build.kernel == "flash_mla" for case in plan.cases_to_run("timing")) == 2
    assert not any(case.build.kernel == "flashinfer" for case in plan.cases_to_run("timing"))


def test_what_the_packages_cannot_compute_is_one_sentence() -> None:
    for name, message in {"flash_mla": "pages of 64", "flashinfer": "fa3"}.items():
        kernel = load_kernel("mla_decode", name)
        assert kernel.SOURCE == INSTALLED and set(kernel.TARGETS) == {"sm_90a"}
        assert kernel.supports(Workload(1, 65, "fp16", heads=16)) is None
        for wrong in (Workload(1, 65, "fp8"), Workload(1, 65, latent=256)):
            assert message in kernel.supports(wrong)


# Called: stand-ins with the packages' own signatures, which compute with PyTorch on the CPU


def attend(q, cache, table, lengths, scale, latent, causal):
    workload = SimpleNamespace(latent=latent, causal=causal)
    return same_precision(Inputs(q, cache, table, lengths, scale), workload)


def flash_mla() -> ModuleType:
    package = ModuleType("flash_mla")

    def get_mla_metadata(cache_seqlens, rows_per_head_k, heads_k):
        return SimpleNamespace(lengths=None), None

    def flash_mla_with_kvcache(
        q, k_cache, block_table, cache_seqlens, head_dim_v, tile_scheduler_metadata, num_splits, softmax_scale, causal
    ):
        meta = tile_scheduler_metadata
        meta.lengths = cache_seqlens.clone() if meta.lengths is None else meta.lengths  # made by the first call
        done = attend(q, k_cache[:, :, 0], block_table, meta.lengths, softmax_scale, head_dim_v, causal)
        return done.out, done.lse.transpose(1, 2)

    package.get_mla_metadata, package.flash_mla_with_kvcache = get_mla_metadata, flash_mla_with_kvcache
    return package


class Wrapper:
    """The wrapper's CUDA-graph mode.

    What it was given at the start is what it reads later.
    """

    def __init__(self, workspace, *, backend, use_cuda_graph, qo_indptr, kv_indptr, kv_indices, kv_len_arr):
        assert (backend, use_cuda_graph) == ("fa3", True)
        self.initial = {"qo_indptr": qo_indptr, "kv_indptr": kv_indptr, "kv_indices": kv_indices}
        self.initial["kv_len_arr"] = kv_len_arr
        assert all(str(tensor.dtype) == "torch.int32" for tensor in self.initial.values())

    def plan(self, *, metadata, lse_mode, **plan):
        assert lse_mode == "basee" and plan["page_size"] == PAGE
        pages, lengths = metadata.kv_indptr, metadata.kv_len_arr
        assert (pages[1:] - pages[:-1]).tolist() == [-(-n // PAGE) for n in lengths.tolist()]
        assert metadata.kv_indices.numel() == int(pages[-1])
        self.planned = plan

    def run(self, *, query, kv_cache, out, lse, return_lse, return_lse_base_on_e):
        assert return_lse and return_lse_base_on_e
        queries, pages, indices, lengths = self.initial.values()
        for request in range(len(lengths)):
            rows = slice(int(queries[request]), int(queries[request + 1]))
            table = indices[int(pages[request]) : int(pages[request + 1])][None]
            plan = self.planned
            done = attend(
                *(query[rows][None], kv_cache, table, lengths[request : request + 1]),
                *(plan["sm_scale"], plan["head_dim_ckv"], plan["causal"]),
            )
            out[rows], lse[rows] = done.out[0], done.lse[0]


def flashinfer() -> ModuleType:
    package = ModuleType("flashinfer")
    package.mla = ModuleType("flashinfer.mla")
    package.mla.BatchMLAPagedAttentionWrapper = Wrapper
    package.mla.MLAPlanMetadata = SimpleNamespace(csr=lambda **values: SimpleNamespace(**values))
    return package


@pytest.fixture
def stand_ins(monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", "unused")
    for package in (flash_mla(), flashinfer()):
        monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, "flashinfer.mla", sys.modules["flashinfer"].mla)


class Adapter(CpuBackend):
    def bind(self, case, workload, inputs, outputs):
        runner = load_kernel("mla_decode", case.kernel).bind(None, workload, inputs, outputs)

        def run(schedule, seed):
            runner(0)
            runner.finish()

        return Bound(run)


@pytest.mark.parametrize("changes", [{}, {"query_tokens": 3, "paged": True}, {"dtype": "fp16", "paged": True}])
@pytest.mark.parametrize("kernel", PEERS)
def test_the_adapters_pass_every_check(stand_ins, kernel, changes) -> None:
    # Ragged lengths, shuffled pages and tables that change in place reach the package as it wants them.
    case = dataclasses.replace(small_case(**changes), kernel=kernel)
    metrics, reason = check_case(case, Adapter(None))
    assert reason is None and metrics["passed"] >= 12


def test_outputs_of_a_call_that_was_not_made_are_spoilt(stand_ins) -> None:
    # FlashMLA's package allocates its outputs. Copying the last ones again must not look like a result.
    case = small_case()
    from kernels.mla_decode.operator import make_inputs, make_outputs

    outputs = make_outputs(case.workload)
    inputs = make_inputs(case.workload, 0)
    runner = load_kernel("mla_decode", "flash_mla").bind(None, case.workload, inputs, outputs)
    runner.finish()  # of the call that made the schedule
    assert bool(outputs.out.float().isnan().all())
    runner(0)
    runner.finish()
    assert not bool(outputs.out.float().isnan().any())
    runner.finish()
    assert bool(outputs.out.float().isnan().all()) and bool(outputs.lse.isnan().all())


def test_a_broken_package_is_its_own_fault(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_mla", None)
    with pytest.raises(RuntimeError, match="flash_mla is installed but cannot be imported"):
        load_kernel("mla_decode", "flash_mla").bind(None, None, None, None)


def test_a_record_says_which_version_was_measured() -> None:
    case = dataclasses.replace(small_case(), kernel="flash_mla")
    assert "flash_mla" in make_record(case, None, "x")["provenance"]["packages"]
    assert "flash_mla" not in make_record(small_case(), None, "x")["provenance"]["packages"]


# Shown


@pytest.fixture
def shown():
    """A laptop with a recorded set that has FlashMLA, whose package is not here."""
    result = sample.evidence(recorded=True)
    plan = copy.deepcopy(result.plan)
    no = {"ok": False, "reason": "flash_mla is not importable here: its kernel is timed elsewhere"}
    who = {"operator": "blend", "kernel": "flash_mla", "dsl": "cuda", "source": INSTALLED, "target": "sm_90a"}
    plan["decisions"].append({**who, "build": no, "run": no, "simulate": no})
    kept = dict(result.recorded)
    for path, entry in result.recorded.items():
        if "/cute_sm90/" in path:
            case = {**entry["case"], "kernel": "flash_mla", "dsl": "cuda", "variant": {"id": "package", "params": {}}}
            kept[path.replace("cute_sm90", "flash_mla")] = {**entry, "case": case}
            if entry["stage"] == "timing":
                plan["cases"].append({"build": "blend/flash_mla/sm_90a/package", "workload": case["workload"]})
    return sample.replace(result, plan=plan, recorded=kept)


def test_recorded_times_stand_as_a_baseline_and_never_as_a_side(shown) -> None:
    compared = compare(shown)
    rows = [row for row in compared["rows"] if (row["target"], row["device"]["kind"]) == ("sm_90a", "recorded")]
    assert rows
    for row in rows:
        assert [b["kernel"] for b in row["baselines"]] == ["torch_sdpa", "flash_mla"]
        assert "flash_mla" not in {row["cutile"]["kernel"], row["cute"]["kernel"]}
        assert "flash_mla" not in json.dumps(row["insights"])


def test_a_missing_package_is_one_row_with_one_reason(shown) -> None:
    compared, notes = compare(shown), Notes()
    (row,) = [row for row in matrix_of(compared, notes, "")["rows"] if row["kernel"] == "flash_mla"]
    assert row["dsl"] == "CUDA C++"
    ((message, note),) = [(why["text"], why["note"]) for why in row["why"]]
    assert message == "not run"
    assert notes.texts[note - 1] == "flash_mla is not importable here: its kernel is timed elsewhere"
    built = next(tile for tile in totals([compared]) if tile["text"] == "builds compiled")
    assert built["expected"] == len([b for b in shown.builds.values()])
    (gpu,) = [gpu for gpu in panels(shown, {}, "results", notes) if gpu["kernel"] == "flash_mla"]
    assert gpu["source"]["text"] == "an installed Python package"


def test_pictures_and_times_name_it_as_cuda(shown) -> None:
    (source,) = [s for s in typed(shown).sources("sm_90a") if s.kind == "recorded"]
    (legend,) = draw_times(shown, source, "sm_90a").figure.legends
    assert "flash_mla (CUDA C++)" in {text.get_text() for text in legend.get_texts()}
    drawn = draw_timeline(shown, source, "sm_90a").figure.axes[0]
    assert "flash_mla" in {text.get_text() for text in drawn.get_yticklabels()}
    (table,) = view_times(compare(shown), [])
    assert "flash_mla" in table["kernels"]


def test_the_summary_sets_every_kernel_against_it_and_its_reference_times_give_way(shown) -> None:
    elsewhere = {"name": "Elsewhere", "device": "NVIDIA H200", "hot_us": {"b1_s1024_bf16": 1.0}}
    (table,) = view_times(
        compare(shown),
        [{**elsewhere, "kernel": "flash_mla"}, {**elsewhere, "kernel": "another"}],
    )
    assert [reference["kernel"] for reference in table["references"]] == ["another"]
    assert table["peers"] == ["flash_mla"]
    speeds = {row["kernel"]: row["warm"]["peers"][0] for row in table["summary"]}
    assert speeds["flash_mla"] is None
    assert speeds["cute_sm90"]["mean"] == pytest.approx(1.0)  # its records are copies of cute_sm90's
    assert speeds["tilegym"]["mean"] < 1 and speeds["tilegym"]["count"] == table["caches"][0]["count"]


def test_recorded_kernels_that_the_experiment_leaves_out_are_not_shown(shown) -> None:
    plan = {
        **shown.plan,
        "decisions": [d for d in shown.plan["decisions"] if d["kernel"] not in ("flash_mla", "cutile")],
    }
    plan["cases"] = [case for case in plan["cases"] if case["build"].split("/")[1] not in ("flash_mla", "cutile")]
    without = sample.replace(shown, plan=plan)
    (source,) = [s for s in typed(without).sources("sm_90a") if s.kind == "recorded"]
    (legend,) = draw_times(without, source, "sm_90a").figure.legends
    assert {text.get_text().split()[0] for text in legend.get_texts()} == {"tilegym", "cute_sm90", "torch_sdpa"}
    draw_timeline(without, source, "sm_90a")
    (table,) = view_times(compare(without), [])
    assert set(table["kernels"]) == {"tilegym", "cute_sm90", "torch_sdpa"}
