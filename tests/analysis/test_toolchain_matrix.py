"""Toolchains compared: worse builds are noticed, limits hold, the gate says which line it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cutesnake.analysis.toolchains import by_operator, gate, matrix, rows
from cutesnake.model import record
from cutesnake.model.records.inspect import Instructions
from cutesnake.report.toolchains import render

LIMITS = {"spill_bytes": 0, "stack_bytes": 0, "spill_sites": 0, "serialized_percent": 10.0, "slower_percent": 3.0}
NAMES = ["old", "new"]


def build(spill: int = 0, arrays: int = 0, sites: int = 0, cold: float | None = 10.0, **options: Any) -> dict[str, Any]:
    instructions = {name: 1 for name in Instructions.__struct_fields__} | {"local_memory": sites}
    function = {
        **{"symbol": "kernel", "code_bytes": 100, "registers_per_thread": 64, "spill_bytes": spill},
        **{"stack_bytes": spill + arrays, "static_shared_bytes": 0, "dynamic_shared_bytes": 0},
        **{"threads_per_block": 128, "cluster_size": 1, "tensor_memory_columns": 0, "setmaxnreg": [], "mbarriers": 0},
        **{
            "reserved_shared_bytes": 1024,
            "named_barriers": 0,
            "instructions": instructions,
            "pipeline_stages": [],
            "occupancy": None,
        },
    }
    predicted = {"workload": "n1", "device": "B200", "cold_us": cold, "warm_us": cold, "band_percent": 20.0}
    return {
        **{"variant": "v", "status": "ok", "reason": None, "seconds": 1.0, "compilers": {}, "functions": [function]},
        "spills": [{"source": "results/fetch/wheel/kernels/add/k.py:7", "loads": sites, "stores": 0}] if sites else [],
        "checks": [{"workload": "n1", "status": "ok", "reason": None}],
        "predictions": [{**predicted, "reason": None if cold else "too long"}],
        "times": [],
    } | options


def failed(reason: str = "TypeError: no\nmore") -> dict[str, Any]:
    return build(status="failed", reason=reason, functions=[], checks=[], predictions=[], times=[])


def kernel(toolchain: str, *builds: dict[str, Any], name: str = "k") -> Any:
    entry = {"stage": "toolchain", "status": "ok", "reason": None, "provenance": {"created": "2026-11-28"}}
    entry |= {"toolchain": toolchain, "operator": "add", "kernel": name, "dsl": "cute", "target": "sm_90a"}
    return record.convert("toolchain", {**entry, "builds": list(builds)}, "test")


def compared(old: dict[str, Any], new: dict[str, Any], **limits: float) -> Any:
    return matrix([kernel("old", old), kernel("new", new)], NAMES, LIMITS | limits)


def test_equal_builds_change_nothing_and_pass():
    result = compared(build(), build())
    assert result.changes == [] and gate(result) == (True, gate(result)[1])
    assert "1 pairs of builds" in gate(result)[1]


def times(cold: float) -> list[dict[str, Any]]:
    return [{"workload": "n1", "device": "NVIDIA H200", "cold_us": cold, "warm_us": 8.0, "reason": None}]


@pytest.mark.parametrize(
    ("old", "new", "limit", "figure"),
    [
        (
            build(times=times(9.0)),
            build(times=times(9.4)),
            {"slower_percent": 5},
            "measured cold µs on NVIDIA H200, n1",
        ),
        (build(spill=8), build(spill=16), {"spill_bytes": 8}, "spill bytes"),
        (build(), build(arrays=16), {"stack_bytes": 16}, "stack bytes"),  # NVIDIA/cutlass issue 3210
        (build(sites=55), build(sites=73), {"spill_sites": 18}, "spill sites"),
        (build(cold=10.0), build(cold=10.4), {"slower_percent": 5}, "predicted cold µs on B200, n1"),
    ],
)
def test_what_grew_beyond_its_limit_fails_and_a_higher_limit_lets_it_pass(old, new, limit, figure):
    result = compared(old, new)
    fine, message = gate(result)
    assert not fine and f"add/k/sm_90a/v: {figure}" in message and "(old → new)" in message
    assert gate(compared(old, new, **limit))[0]
    assert gate(compared(new, old))[0]  # the other way it is better
    assert {change.effect for change in compared(new, old).changes if change.figure == figure} == {"better"}


def test_the_source_lines_of_new_spills_are_named():
    _, message = gate(compared(build(), build(sites=4)))
    assert "; kernels/add/k.py:7 (+4)" in message


def wgmma(*counts: tuple[int | None, int]) -> dict[str, Any]:
    """Return a build with a function per (serialized, all) wgmma instructions."""
    result = build()
    (one,) = result["functions"]
    result["functions"] = [
        one | {"symbol": f"f{n}", "serialized_wgmma": part, "instructions": {**one["instructions"], "tensor_core": of}}
        for n, (part, of) in enumerate(counts)
    ]
    return result


def test_wgmma_that_wait_one_by_one_fail_the_gate_by_their_share_of_a_function():
    """Count wgmma of cuTile's MLA decode, which tileiras 13.5 makes 28 % slower."""
    before = wgmma((0, 40), (0, 104))
    fine, message = gate(compared(before, wgmma((0, 40), (156, 156))))
    assert not fine and "serialized wgmma 0 → 156; f1 (0 of 104 → 156 of 156)" in message
    assert gate(compared(before, wgmma((0, 40), (156, 156)), serialized_percent=100))[0]
    for neutral in (wgmma((0, 80), (1, 272)), wgmma((None, 40), (None, 104)), wgmma((0, 40))):
        assert gate(compared(before, neutral))[0]
    whole = wgmma((16, 16))
    assert gate(compared(whole, wgmma((32, 32))))[0]  # as serialized as before, unrolled


@pytest.mark.parametrize("way", [1, -1])
def test_a_record_without_the_count_of_serialized_wgmma_is_unknown_not_zero(way):
    recorded_earlier, now = build(), wgmma((104, 104))
    result = compared(*(recorded_earlier, now)[::way])
    (change,) = [one for one in result.changes if one.figure == "serialized wgmma"]
    assert (change.old, change.new) == (None, 104)[::way]
    assert (change.effect, change.over, change.cause) == ("other", False, None) and gate(result)[0]


def test_stack_beyond_unknown_spills_counts_whole():
    spilling, unknown = build(spill=8), build(arrays=12)
    unknown["functions"][0]["spill_bytes"] = None
    assert gate(compared(spilling, unknown, stack_bytes=4))[0]
    assert not gate(compared(spilling, unknown, stack_bytes=3))[0]


def test_a_build_that_no_longer_compiles_fails_with_the_compilers_first_line():
    fine, message = gate(compared(build(), failed()))
    assert not fine and "compiles ok → failed; TypeError: no (old → new)" in message
    assert gate(compared(failed(), build()))[0] and gate(compared(failed(), failed()))[0]


def test_a_check_that_fails_now_fails_the_gate():
    wrong = [{"workload": "n1", "status": "failed", "reason": "wrong by 3"}]
    fine, message = gate(compared(build(), build(checks=wrong)))
    assert not fine and "wrong by 3" in message


def test_a_toolchain_that_compiles_nothing_hides_no_growth():
    records = [kernel("old", build()), kernel("broken", failed()), kernel("new", build(spill=64))]
    result = matrix(records, ["old", "broken", "new"], LIMITS)
    over = {(change.before, change.now, change.figure) for change in result.changes if change.over}
    assert over == {("old", "broken", "compiles"), ("old", "new", "spill bytes")}


def test_unknown_values_are_shown_and_fail_nothing():
    unknown = build()
    unknown["functions"][0]["spill_bytes"] = None
    result = compared(unknown, build(cold=None))
    predicted = {(f"predicted {cache} µs on B200, n1", 10.0, None) for cache in ("cold", "warm")}
    assert {(one.figure, one.old, one.new) for one in result.changes} == {("spill bytes", None, 0), *predicted}
    assert {one.effect for one in result.changes} == {"other"}
    fine, message = gate(result)
    assert fine and "; unknown now: 2" in message


def test_a_check_that_meets_an_unknown_instruction_is_unknown_and_fails_nothing():
    reason = "ptxsim cannot run it"
    unknown = build(checks=[{"workload": "n1", "status": "failed", "reason": reason, "unknown_opcode": "foo"}])
    reasons = "wrong by 3", "n1: NotSimulatedError: ended by the time limit", "ptxsim cannot run it: unknown opcode"
    result = compared(build(), unknown)
    (change,) = result.changes
    assert (change.old, change.new, change.effect, change.cause) == ("ok", None, "other", reason)
    assert gate(result)[0] and "; unknown now: 1" in gate(result)[1]
    assert gate(compared(unknown, build()))[0]
    for reason in reasons:
        wrong = build(checks=[{"workload": "n1", "status": "failed", "reason": reason}])
        assert not gate(compared(build(), wrong))[0]


def test_at_most_ten_changes_are_named_the_largest_growth_first():
    olds = [kernel("old", build(spill=10), name=f"k{n}") for n in range(12)]
    news = [kernel("new", build(spill=11 + n), name=f"k{n}") for n in range(12)]
    _, message = gate(matrix([*olds, *news], NAMES, LIMITS))
    lines = message.splitlines()
    assert len(lines) == 12 and "k11/" in lines[1] and "and 2 more" in lines[-1]


def test_nothing_to_compare_is_no_success():
    fine, message = gate(matrix([kernel("old", build())], NAMES, LIMITS))
    assert not fine and "nothing to compare" in message


def test_the_page_shows_failures_values_and_bands():
    records = [kernel("old", build(sites=2), name="k"), kernel("new", failed("a <b> c"), name="k")]
    page = render(matrix(records, NAMES, LIMITS), records, [], "front.html")
    assert "not compiled: a &lt;b&gt; c" in page and "± 20 %" in page and "beyond the limit" in page


def test_an_operators_page_has_its_own_builds_with_counts_spill_sites_and_measured_times():
    builds = build(sites=2), build(sites=5, times=times(12.34))
    records = [kernel("old", builds[0]), kernel("new", builds[1])]
    other = record.convert("toolchain", record.plain(records[0]) | {"operator": "scale2"}, "test")
    compared = matrix([*records, other], NAMES, LIMITS)
    page = render(compared, [*records, other], [], "front.html", "add")
    assert "scale2" not in page and "wheel/kernels/add/k.py:7</td><td" in page and "tensor core" in page
    assert "12.3; 8 <span" in page and "NVIDIA H200" in page
    every = render(compared, [*records, other], [], "front.html")
    assert all(f'href="toolchains/{name}.html"' in every for name in ("add", "scale2"))


def test_a_difference_that_is_neither_better_nor_worse_is_on_the_operators_page_alone():
    larger = build()
    larger["functions"][0]["code_bytes"] = 123456
    records = [kernel("old", build()), kernel("new", larger)]
    result = matrix(records, NAMES, LIMITS)
    assert "code bytes</td>" in render(result, records, [], "front.html", "add")
    every = render(result, records, [], "front.html")
    assert "code bytes</td>" not in every and "1 differences" in every and 'id="spills"' not in every


def test_a_value_that_is_unknown_now_is_on_the_page_of_all_operators():
    records = [kernel("old", build()), kernel("new", build(cold=None))]
    page = render(matrix(records, NAMES, LIMITS), records, [], "front.html")
    assert "predicted cold µs on B200, n1</td>" in page and "too long</td>" in page


def test_pairs_are_counted_per_operator():
    records = [kernel("old", build()), kernel("new", build(spill=8)), kernel("old", build(), name="k2")]
    compared = matrix(records, NAMES, LIMITS)
    assert by_operator(compared, rows(records, NAMES)) == {"add": {"pairs": 1, "worse": 1, "better": 0, "over": 1}}


def test_records_of_toolchains_survive_a_round_trip():
    result = compared(build(), build(sites=4))
    assert record.parse("toolchains", msgspec.json.encode(result), "test") == result
