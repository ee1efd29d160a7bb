"""The anatomy of kernels: rules on small programs, the answer sheet, and the pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import builds
from anatomy_records import record_of
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator, make_workload
from cutesnake.model.records.anatomy import AnatomyFunction
from cutesnake.model.targets import TARGETS
from cutesnake.planning import problems
from cutesnake.planning.matrix import Build
from cutesnake.planning.sweep import make_sweep, read_sweep
from cutesnake.stages.anatomy import copies, graph, host, page
from cutesnake.stages.anatomy.checks import contradictions
from cutesnake.stages.anatomy.code import Code, what
from cutesnake.stages.anatomy.function import group_as_data
from cutesnake.stages.anatomy.numbers import numbers, spans
from cutesnake.stages.anatomy.patterns import RULES, Function, find_patterns
from cutesnake.stages.anatomy.pipelines import Group, find_pipelines, joined
from cutesnake.stages.anatomy.record import anatomy_of
from cutesnake.stages.anatomy.shapes import layout_plots
from cutesnake.stages.anatomy.shared import Buffer, budgets
from cutesnake.stages.anatomy.watch import Copy
from cutesnake.stages.load.cute import ForeignBuildError
from partial_records import filled
from ptxsim import Module
from ptxsim.memory.global_memory import Memory
from ptxsim.memory.tensor_map import TensorMap

LOAD = "tma_load"
SHEETS = ("anatomy_answers.yaml", "anatomy_answers_blind.yaml")
REPLIES = [reply for name in SHEETS for reply in yaml.safe_load((Path(__file__).parent / name).read_text())]
HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
# A grid-stride loop around a guarded store, and before it a store that nothing guards.
LOOP = """
.visible .entry add(.param .u64 out, .param .u32 size)
{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [size];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mov.u32 %r4, %tid.x;
LOOP:
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  add.s32 %r5, %r2, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra SKIP;
  st.global.f32 [%rd3], %f1;
SKIP:
  add.s32 %r2, %r2, %r3;
  setp.lt.u32 %p2, %r2, %r1;
  @%p2 bra LOOP;
  PLAIN
  ret;
}
"""


def code_of(text: str) -> Code:
    return Code(next(iter(Module.from_text(HEAD + text).kernels.values())))


def patterns_of(text: str) -> dict[str, Any]:
    return find_patterns(Function(code_of(text), 1, None, None, None, None, [], None))


def test_a_loop_that_ends_by_the_ctas_index_and_holds_every_store_is_persistent() -> None:
    inside = patterns_of(LOOP.replace("PLAIN", ""))
    assert inside["persistent loop"].present and inside["boundary handling"].present
    past = patterns_of(LOOP.replace("PLAIN", "st.global.f32 [%rd1], %f1;"))
    assert past["persistent loop"].present is False
    assert "1 of 2 plain stores" in past["boundary handling"].evidence


def test_a_store_without_a_test_is_told_to_need_whole_tiles() -> None:
    bare = re.sub(r"\n  @%p1 bra SKIP;|\nSKIP:", "", LOOP.replace("PLAIN", ""))
    assert patterns_of(bare)["boundary handling"].present is False


def test_what_was_not_run_is_unknown_and_not_denied() -> None:
    waits = LOOP.replace("PLAIN", "mbarrier.init.shared.b64 [%r1], 1;")
    result = patterns_of(waits)
    assert result["multi-stage pipeline"].present is None
    assert list(result) == list(RULES) and len(result) == 10


def test_mbarriers_that_nobody_arrives_at_are_no_stages_of_a_pipeline() -> None:
    idle = Group("mbarriers", [0, 8, 16], 1, unused=3)
    used = Group("mbarriers", [24, 32], 1, {("copy", "load"): Counter({-1: 2})})
    code = code_of(LOOP.replace("PLAIN", ""))

    def evidence(*groups: Group) -> str:
        return find_patterns(Function(code, 1, None, None, groups, [], [], None))["multi-stage pipeline"].evidence

    assert evidence(idle, used) == evidence(used) == "2 barriers in turn (load)"
    assert "barriers in turn" not in evidence(idle)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r4];", LOAD),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];", "tma_store"),
        ("st.global.v4.f32 [%rd1], {%f1, %f1, %f1, %f1};", "global_store"),
        ("ex2.approx.ftz.f32 %f1, %f2;", "exponential"),
        ("max.f32 %f1, %f2, %f1;", "maximum"),
        ("max.s32 %r1, %r2, %r3;", None),
        ("redux.sync.max.NaN.f32 %f1, %f2, -1;", "maximum"),
        ("bar.sync 1, 128;", "named_sync"),
        ("mbarrier.arrive.shared.b64 _, [%r1];", "arrive"),
    ],
)  # fmt: skip
def test_an_instruction_is_known_for_what_it_does(text, kind) -> None:
    assert what(code_of(LOOP.replace("PLAIN", text)).instructions[-2]) == kind


def test_the_budget_of_shared_memory_follows_the_dsls_own_list() -> None:
    ir = (
        '!memref_smem_i8 = !cute.memref<i8, smem, align<8>, "88:1">\n'
        '!memref_smem_f16 = !cute.memref<f16, smem, align<128>, S<3,4,3>, "(128,64,4):(64,1,8192)">\n'
        "cuda.kernel @mine() {\n"
        '%smem = cute.memref.alloca() {smem.struct_fields = ["full:64:0", "held:4:80"]} : !memref_smem_i8\n'
        "%smem_1 = cute.memref.alloca() : !memref_smem_f16\n}"
    )
    result = budgets(ir)["mine"]
    assert [(b.name, b.offset, b.bytes) for b in result] == [
        ("full", 0, 64),
        ("held", 80, 4),
        ("buffer 2", 128, 128 * 64 * 4 * 2),
    ]


def test_who_arrives_and_waits_is_written_in_an_order_that_no_run_changes() -> None:
    arrivals = {(kind, role): Counter({-1: 2}) for kind in ("threads", "copy") for role in ("b", "a")}
    waits = {"b": Counter(), "a": Counter()}
    one = Group("full", [0], 1, arrivals, waits)
    other = Group("full", [0], 1, dict(reversed(arrivals.items())), dict(reversed(waits.items())))
    code = code_of(LOOP.replace("PLAIN", ""))
    assert group_as_data(code, one) == group_as_data(code, other)


def barriers(*uses: tuple[str, str, str]) -> list[Group]:
    """Return neighbouring mbarriers as find_groups takes them."""
    return [
        Group("", [8 * n], 1, {(kind, came): Counter({-1: 1})}, {waits: Counter({-1: 1})})
        for n, (kind, came, waits) in enumerate(uses)
    ]


FULL, EMPTY = ("copy", "load", "multiply"), ("commit", "multiply", "load")


def stages_of(groups: list[Group], *buffers: Buffer) -> list[int]:
    """Stages of the pipelines in groups that `buffers` hold."""
    code = code_of(LOOP.replace("PLAIN", ""))
    return [pipeline.stages for pipeline in find_pipelines(joined(code, groups, buffers))]


def test_full_and_empty_barriers_of_one_array_are_a_ring_of_half_its_length() -> None:
    assert stages_of(barriers(*[FULL] * 4, *[EMPTY] * 4), Buffer("ring", 0, 64, True)) == [4]
    assert stages_of(barriers(*[FULL] * 4, *[EMPTY] * 4), Buffer("buffer 1", 0, 64, False)) == [4]


def test_an_accumulator_used_once_is_not_paired_with_a_foreign_barrier() -> None:
    full = Group("acc", [0], 1, {("commit", "all"): Counter()}, {"all": Counter()}, half_of=0)
    empty = Group("acc", [8], 128, unused=1, half_of=0)
    freed = Group("dealloc", [16], 32, {("threads", "all"): Counter()}, {"all": Counter()})
    assert [one.empty.offsets for one in find_pipelines([full, empty, freed])] == [[8]]


def test_fields_of_full_and_of_empty_barriers_are_a_ring_of_their_whole_length() -> None:
    fields = Buffer("a_full", 0, 32, True), Buffer("a_empty", 32, 32, True)
    assert stages_of(barriers(*[FULL] * 4, *[EMPTY] * 4), *fields) == [4]


def test_a_ring_that_two_tensors_fill_in_turn_is_one() -> None:
    groups = barriers(*[FULL] * 4, *[EMPTY] * 4)
    for place, tensor in enumerate("kkvv"):
        groups[place].tensors = {tensor}
    assert stages_of(groups, Buffer("ring", 0, 64, True)) == [4]


def test_a_ring_whose_stages_have_a_barrier_for_each_tile_and_each_consumer_is_found() -> None:
    full = [Group("", [0, 8, 16], 1, {("copy", "load"): Counter()}, {name: Counter()}) for name in ("a", "b")]
    empty = [
        Group("", [at], 1, {("threads", name): Counter()}, {"load": Counter()}) for at, name in ((48, "a"), (56, "b"))
    ]
    (one,) = find_pipelines([*full, *empty])
    assert one.stages == 1 and len(one.full.offsets) == 6
    (two,) = find_pipelines([*full, *empty, *(Group("", [g.offsets[0] + 16], 1, g.arrivals, g.waits) for g in empty)])
    assert two.stages == 2


def test_rings_of_two_tensors_that_one_ring_of_empty_barriers_serves_are_two() -> None:
    copies, reads = {("copy", "load"): Counter()}, {"multiply": Counter()}
    a, b, once = (
        Group("", [place, place + 8], 1, copies, reads, {name}, completed=phases)
        for place, name, phases in ((0, "a", 6), (32, "b", 6), (48, "q", 1))
    )
    empty = Group("", [16, 24], 128, {("threads", "multiply"): Counter()}, {"load": Counter()}, completed=6)
    pipelines = find_pipelines([a, empty, b, once])
    assert [(one.name, one.stages) for one in pipelines] == [("a: load → multiply", 2), ("b: load → multiply", 2)]
    assert pipelines[1].empty is empty


def function(**changes: Any) -> dict[str, Any]:
    buffer = {"name": "ring", "bytes": 96, "stages": 3, "stage_bytes": 32}
    pipeline = {"name": "a: load → multiply", "producers": ["load"], "consumers": ["multiply"]}
    roles = [{"name": name} for name in ("load", "multiply", "idle")]
    plain = {
        "roles": roles,
        "pipelines": [pipeline],
        "barriers": [],
        "descriptors": [],
        "products": [],
        "shared": {"buffers": [buffer]},
    }
    return {**plain, **changes}


def test_a_block_scaled_product_shows_its_shared_memory_accumulator_and_scale_factors(tmp_path) -> None:
    box = {"tensor": "a", "element": "e4m3", "box": [64, 128], "box_bytes": 8192, "swizzle": "64 B"}
    product = {"instruction": "tcgen05.mma", "shape": [128, 256, 32], "cta_group": 2, "scale_factors": 1}
    function = {"symbol": "kernel", "descriptors": [box], "products": [product]}
    shown = layout_plots(filled(AnatomyFunction, function), tmp_path)
    starts = (
        "Shared memory of a, 128 rows a box. Atom of a 64-byte",
        "An accumulator of 128 x 256 by a pair",
        "Atom of scale",
    )
    assert len(shown) == len(starts) and all(
        one.caption.startswith(text) for one, text in zip(shown, starts, strict=True)
    )


def test_a_record_that_contradicts_itself_is_told() -> None:
    assert contradictions(function()) == []
    halved = {"name": "ring", "bytes": 96, "stages": 3, "stage_bytes": 16}
    assert contradictions(function(shared={"buffers": [halved]})) == ["3 stages of 16 B do not fill the 96 B of ring"]
    taking = {"name": "a: load → idle", "producers": ["load"], "consumers": ["idle"]}
    assert contradictions(function(pipelines=[taking])) == ["role idle takes part in the pipeline a: load → idle"]
    using = {"offset": 8, "arrivals": [{"role": "idle"}], "waits": []}
    assert contradictions(function(barriers=[using])) == ["role idle uses the mbarrier at 8"]
    assert contradictions(function(roles=[{"name": "idle 1"}, {"name": "idle 2"}], pipelines=[]))


def test_tensors_are_named_by_the_operator_and_then_by_the_kernels_variables() -> None:
    torch = pytest.importorskip("torch")
    x, workspace = torch.zeros(64), torch.zeros(64)
    names = host.Names([("x", x)])
    space: dict[str, Any] = {"__name__": "kernels.mine", "workspace": workspace}
    exec("def bind():\n    arguments = [workspace]\n    partial = workspace\n    return partial", space)
    with names.watched():
        space["bind"]()
    assert (names.of(x), names.of(x[8:]), names.of(workspace)) == ("x", "x", "partial")
    assert names.of(torch.zeros(4)) == "workspace"


HANDED = """
.visible .entry tiles(.param .u64 out)
{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r4, 64;
  st.shared.u32 [%r4], WHAT;
LOOP:
  ld.shared.u32 %r5, [%r4];
  st.global.f32 [%rd1], %f1;
  setp.lt.u32 %p2, %r5, 7;
  @%p2 bra LOOP;
  ret;
}
"""


@pytest.mark.parametrize(("written", "handed"), [("%r2", True), ("%r4", False)])
def test_a_loop_that_ends_by_a_tile_from_shared_memory_is_persistent(written, handed) -> None:
    code = code_of(HANDED.replace("WHAT", written))
    (loop,), (store,) = code.loops, code.places("shared_store")
    feeds = {code.places("shared_load")[0]: [store]}
    (leaving,) = code.exits(loop)
    assert ("%ctaid" in code.depends(leaving, loop, feeds).specials) is handed
    assert "%ctaid" not in code.depends(leaving, loop).specials


def test_runs_of_numbers_are_written_and_read_alike() -> None:
    assert spans([0, 1, 2, 3, 8]) == "0-3, 8"
    assert numbers("0-3, 8") == {0, 1, 2, 3, 8} and numbers("") == set()


def test_of_every_kernel_and_target_a_build_is_watched_and_the_others_name_it() -> None:
    sweep = make_sweep("fmha", read_sweep("fmha", {}))
    module = load_kernel("fmha", "tilegym")
    every = [workload for workload in sweep.workloads() if module.supports(workload) is None]
    result = {
        build.key: build
        for target, lists in (("sm_90a", [every]), ("sm_100a", [every, *sweep.small()]))
        for workload in (one for workloads in lists for one in workloads if module.supports(one) is None)
        for build in (Build("fmha", "tilegym", target, variant) for variant in module.variants(workload, target))
    }
    watched = problems.of_builds(list(result.values()), sweep.small(), sweep.workloads())
    assert set(watched) == set(result)
    for target, in_part in (("sm_90a", True), ("sm_100a", False)):
        mine = {key: how for key, how in watched.items() if f"/{target}/" in key}
        run = [key for key, how in mine.items() if how["workloads"]]
        assert run and {how["in_part"] for how in mine.values() if how["workloads"]} == {in_part}
        assert {how["instead"] for how in mine.values() if not how["workloads"]} == {run[0]}
    (large,) = next(how["workloads"] for how in watched.values() if how["in_part"])
    cost = load_operator("fmha").cost
    bytes_of = {workload.id: cost(workload).bytes for workload in every}
    assert cost(make_workload("fmha", large)).bytes <= min(bytes_of.values())


def test_a_map_that_begins_before_its_memory_has_the_name_of_what_its_boxes_reach(monkeypatch) -> None:
    """As cute_sm90's map of the cache does, whose first rows no page's box reaches."""
    memory = Memory()
    memory.add("before", 0x1000, 0x1000)
    memory.add("cache", 0x4000, 0x1000)
    launch = SimpleNamespace(memory=memory)
    tensor = TensorMap(0x3000, 10, 16, (64, 64), (2, 128), (64, 64), 3, 0)
    assert host.tensor_name(launch, tensor) is None
    for corner, name in (((0, 32), "cache"), ((0, -8), None), ((0, 200), "cache")):
        assert host.tensor_name(launch, tensor, tensor.nearest(corner)) == name
        assert host.describe(launch, tensor, tensor.nearest(corner))["tensor"] == name
    # Where it begins there may be another tensor, by chance.
    memory.add("other", 0x3000, 0x800)
    launch.kernel, launch.params = SimpleNamespace(params=[SimpleNamespace(size=128, offset=0)]), bytes(128)
    monkeypatch.setattr(host, "decode", lambda raw: tensor)
    loads = {(7, tensor): Copy(7, tensor, touched=tensor.nearest((0, 32)))}
    code = SimpleNamespace(kinds={7: LOAD}, sources=lambda lines: [])
    for copies_made, name in ((loads, "cache"), ({}, "other")):
        seen = SimpleNamespace(launch=launch, loads=copies_made, stores={})
        assert [d["tensor"] for d in copies.descriptors(code, seen, [])] == [name]


# What follows compiles: a build takes a few seconds.


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Any]]:
    """Build -> its anatomy, of the kernels of the answer sheet."""
    return {reply["build"]: record_of(reply["build"]) for reply in REPLIES}


def entries(reply: dict[str, Any], result: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(entry of the sheet, the answer there, what the record says), entry by entry."""
    f = result["functions"][0]
    roles = {role["name"]: role for role in f["roles"]}
    host = f["host"]
    if "threads" in reply:
        yield "threads", reply["threads"], host["block"][0] * host["block"][1] * host["block"][2]
    yield "cluster", reply["cluster"], host["cluster"][0] * host["cluster"][1] * host["cluster"][2]
    if "tensor_memory_columns" in reply:
        yield "tensor memory", reply["tensor_memory_columns"], f["tensor_memory"]["columns"]
    for name, warps in reply.get("roles", {}).items():
        yield f"role {name}", str(warps), spans(roles[name]["warps"]) if name in roles else None
    for name, registers in reply.get("registers", {}).items():
        yield f"registers of {name}", [registers], roles[name]["registers"] if name in roles else None
    for task, warps in reply.get("some", {}).items():
        yield f"who does {task}", warps, spans(f["roles"][0]["some"].get(task, []))
    for name, stages in reply.get("pipelines", {}).items():
        mine = [p["stages"] for p in f["pipelines"] if p["name"] == name or p["name"].startswith(f"{name}: ")]
        yield f"pipeline {name}", stages if isinstance(stages, list) else [stages], sorted(mine)
    for name, count in reply.get("counts", {}).items():
        yield f"count of {name}", True, count in [b["count"] for b in f["barriers"] if b["name"] == name]
    for name, kinds in reply.get("arrivals", {}).items():
        arrivals = [a for b in f["barriers"] if b["name"] == name for a in b["arrivals"]]
        for kind, count in kinds.items():
            yield f"{kind} arrivals at {name}", [count], [a["per_phase"] for a in arrivals if a["kind"] == kind]
    used = {(use["way"], d["tensor"]): use for d in f["descriptors"] for use in d["uses"]}
    if "loads" in reply:
        yield "loads", sorted(reply["loads"]), sorted({tensor for way, tensor in used if way == "load"})
    if "stores" in reply:
        yield "stores", sorted(reply["stores"]), sorted({tensor for way, tensor in used if way == "store"})
    for tensor, count in reply.get("multicast", {}).items():
        yield f"multicast of {tensor}", count, used["load", tensor]["multicast_to"]
    described = {d["tensor"]: d for d in f["descriptors"]}
    for tensor, box in reply.get("boxes", {}).items():
        yield f"box of {tensor}", box, described[tensor]["box"]
    if "swizzle" in reply:
        yield "swizzle", {reply["swizzle"]}, {described[tensor]["swizzle"] for tensor in reply["loads"]}
    if "products" in reply:
        yield "products", sorted(reply["products"]), sorted({tuple(p["shape"]) for p in f["products"]}, key=list)
        yield "accumulators", {reply["accumulators"]}, {p["d_in"] for p in f["products"]}
    if "cta_group" in reply:
        yield "CTAs of a product", {reply["cta_group"]}, {p["cta_group"] for p in f["products"]}
    sizes = {b["name"]: b["bytes"] for b in f["shared"]["buffers"] or ()}
    for name, size in reply.get("buffers", {}).items():
        yield f"buffer {name}", size, sizes.get(name)
    for expected, key in ((True, "there"), (False, "not_there")):
        for name in reply[key]:
            yield f"pattern {name}", expected, f["patterns"][name]["found"]


def same(expected: Any, result: Any) -> bool:
    if isinstance(expected, list) and isinstance(result, list):
        return [list(x) if isinstance(x, tuple) else x for x in result] == expected
    return expected == result


@pytest.mark.slow
def test_the_answer_sheet_is_met_and_nothing_is_claimed_falsely(records) -> None:
    rows = [(reply["build"], *entry) for reply in REPLIES for entry in entries(reply, records[reply["build"]])]
    wrong = [row for row in rows if not same(row[2], row[3])]
    assert len(rows) > 450
    assert len(wrong) <= 0.02 * len(rows), wrong
    claimed = [row for row in wrong if row[1].startswith("pattern") and row[3] is True]
    assert not claimed


@pytest.mark.slow
def test_no_record_of_the_sheet_contradicts_itself(records) -> None:
    assert not [(key, f["contradictions"]) for key, r in records.items() for f in r["functions"] if f["contradictions"]]


@pytest.mark.slow
def test_a_page_shows_the_graph_and_the_code_of_every_role(records) -> None:
    result = records["fmha/cutlass_sm100/sm_100a/bf16_d128_128x128_none"]
    result = record.convert("anatomy", result, "it")
    plot = graph.draw(result.functions[0])
    assert plot is not None and plot.count("correct +") == 1 and "load_kv_mbar_ptr x 3" in plot
    text = page.render([result], Path("nowhere"))
    assert "128-byte swizzle" in text and "named barrier 1" in text
    linked = page.render([result], None, knowledge="../docs/knowledge")
    assert linked.count('href="../docs/knowledge/') == len(page._verdicts([result])) > 0
    assert not re.search(r"\bNone\b", re.sub(r"<code>.*?</code>", "", text))


@pytest.mark.slow
def test_every_roles_lines_are_in_its_source(records) -> None:
    key = "mla_decode/cute_sm90/sm_90a/bf16_cluster1"
    load = next(role for role in records[key]["functions"][0]["roles"] if role["name"] == "load")
    lines = load["lines"]["load"]
    assert lines and all(line.startswith("kernels/mla_decode/cute_sm90/kernel.py:") for line in lines)


@pytest.mark.slow
def test_a_cutile_build_is_watched_too() -> None:
    result = record_of("elementwise_add/cutile/sm_100a/fp32_4x1024")
    assert result["watched"] and result["grids"]
    assert [role["tasks"] for role in result["functions"][0]["roles"]] == [["load", "store"]]
    shown = page.render([record.convert("anatomy", result, "whole")], Path("nowhere"))
    assert f"{result['watched']['processors']} SMs" in shown
    part = record_of("elementwise_add/cutile/sm_100a/fp32_4x1024", most_clusters=2)
    record.check("anatomy", part, "part")
    assert part["watched"]["most_clusters"] == 2 and part["watched"]["processors"] == 148
    assert [role["tasks"] for role in part["functions"][0]["roles"]] == [["load", "store"]]
    assert "first 2 clusters of each launch" in " ".join(
        page.render([record.convert("anatomy", part, "part")], Path("nowhere")).split()
    )


def test_a_build_that_was_compiled_elsewhere_gives_no_record(tmp_path, monkeypatch) -> None:
    workload = make_workload("elementwise_add", {"rows": 37, "columns": 1024, "dtype": "fp32"})
    variant = load_kernel("elementwise_add", "cute").variants(workload, "sm_90a")[0]
    folder = builds.build("elementwise_add", "cute", "sm_90a", variant)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(ForeignBuildError):
        anatomy_of(folder, [asdict(workload)], TARGETS["sm_90a"].simulated_processors)
