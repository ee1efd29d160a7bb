"""Rules: each speaks on numbers that meet its condition, and on no others."""

from __future__ import annotations

import msgspec
import pytest

import sample
from cutesnake.analysis.compare.insight import RULES, Pair, Side, insights, number
from cutesnake.model.records.compare import Cell
from cutesnake.model.records.inspect import Function
from cutesnake.model.records.ncu import NcuMetrics
from cutesnake.model.records.roofline import RooflineRow
from cutesnake.model.records.timing import TimingMetrics
from cutesnake.stages.profile.bottleneck import classify

KEYS = ("duration_us", "hot_duration_us", "tensor_core_percent", "dram_percent", "occupancy_percent")


def cells(kind="measured", **values):
    return {
        key: Cell(values[key], "", kind, None, None) if key in values else Cell(None, "", "missing", None, "not known")
        for key in KEYS
    }


def side(dsl, function=None, kind="measured", **more):
    values = {key: more.pop(key) for key in KEYS if key in more}
    plain = sample.function("cutile", "sm_90a")
    figures = None if function is None else msgspec.convert({**plain, **PLAIN, **function}, Function)
    for key, made, form in (("timing", TIMES, TimingMetrics), ("ncu", PROFILE, NcuMetrics)):
        if key in more:
            more[key] = msgspec.convert({**made, **more[key]}, form)
    name = {"cutile": "tile", "cute": "hand"}[dsl]
    return Side(name, dsl, "v", None, cells(kind, **values), function=figures, **more)


PLAIN = {
    **{"registers_per_thread": 128, "spill_bytes": 0, "setmaxnreg": [], "cluster_size": 1},
    **{"tensor_memory_columns": None, "occupancy": None, "instructions": None},
}
MIX = sample.function("cute_sm90", "sm_90a")["instructions"]
NOTHING = dict.fromkeys(MIX, 0)
ALONE = sample.function("cute_sm90", "sm_90a")["occupancy"]
TIMES = sample.timing("cutile", sample.workloads()[0], 1.0)
PROFILE = sample.ncu(sample.workloads()[0], 1.0)
FLOOR = {
    **sample.roofline(sample.workloads()[:1])[0],
    **{"device": "H200", "bound": "memory", "intensity": 100.0, "ridge": 206.0, "floor_us": 10.0},
}


def message(left=None, right=None, floor=None, parameters=None):
    row = floor and msgspec.convert(floor, RooflineRow)
    pair = Pair(left or side("cutile", {}), right or side("cute", {}), row, parameters or {"length": 1})
    return {entry.rule: entry.sentence for entry in insights(pair)}


def test_plain_numbers_say_nothing():
    assert message() == {}


@pytest.mark.parametrize(
    ("rule", "left", "right", "sentence"),
    [
        ("S2", {"spill_bytes": 48}, {}, "tile spills 48 bytes"),
        ("S3", {"registers_per_thread": 255}, {}, "tile uses the maximum of 255 registers per thread, without"),
        (
            "S4",
            {"registers_per_thread": 160},
            {},
            "hand needs 32 fewer registers per thread than tile (128 vs 160)",
        ),
        (
            "S5",
            {},
            {"setmaxnreg": [240, 24]},
            "hand reallocates registers between warpgroups (setmaxnreg 24, 240)",
        ),
        ("S6", {}, {"occupancy": ALONE}, "Shared memory limits an SM to one block: hand (215 KB)"),
        ("S7", {"instructions": MIX}, {"instructions": NOTHING}, "tile has 56 tensor-core instructions, hand has none"),
        ("S8", {}, {"tensor_memory_columns": 256}, "hand keeps accumulators in tensor memory (256 of 512"),
        ("S9", {"instructions": NOTHING}, {"instructions": MIX}, "hand has 71 TMA load instructions, tile has none"),
        ("S10", {"instructions": NOTHING}, {"instructions": MIX}, "hand shares loads between blocks of a cluster"),
        ("S11", {}, {"cluster_size": 2}, "hand runs in clusters of 2 blocks"),
    ],
)
def test_static_rules(rule, left, right, sentence):
    assert sentence in message(side("cutile", left), side("cute", right))[rule]


@pytest.mark.parametrize(
    ("rule", "left", "right"),
    [
        ("S3", {"registers_per_thread": 254}, {}),
        ("S4", {"registers_per_thread": 159}, {}),
        ("S6", {}, {"occupancy": {**ALONE, "blocks_per_sm": 2}}),
        ("S6", {}, {"occupancy": {**ALONE, "limiter": "registers"}}),
        ("S7", {"instructions": MIX}, {"instructions": None}),  # not known is not none
        ("S9", {"instructions": MIX}, {"instructions": MIX}),
    ],
)
def test_static_rules_stay_silent(rule, left, right):
    assert rule not in message(side("cutile", left), side("cute", right))


def test_spills_at_the_ceiling_are_not_said_to_be_absent():
    text = message(side("cutile", {"registers_per_thread": 255, "spill_bytes": None}))["S3"]
    assert "without spilling" not in text


def test_sizes_baked_in_or_served():
    constant = side("cutile", {}, params={"length": 4096, "tile_n": 64}, served=1)
    text = message(constant, side("cute", {}, params={"tile_n": 64}, served=24))["S12"]
    assert text == (
        "tile has compile-time constants length: another value needs another build. "
        "One build of hand serves 24 workloads; sizes are runtime arguments."
    )


def test_bound_names_the_side_of_the_ridge():
    text = message(floor=FLOOR)["S1"]
    assert "100 FLOP/B is below the ridge of H200 (206 FLOP/B)" in text
    assert "memory-bound, at least 10 µs at nominal boost clock" in text


def test_faster_and_share_of_the_peaks():
    result = message(side("cutile", duration_us=40.0), side("cute", duration_us=20.0), FLOOR)
    assert result["M1"] == "hand is 2.00\N{MULTIPLICATION SIGN} as fast as tile."
    assert result["M2"].startswith("tile reaches 25 % and hand reaches 50 % of the roofline (memory-bound, at least 10")


@pytest.mark.parametrize(("spread", "equal"), [(0.1, False), (4.0, True)])
def test_times_within_the_noise_are_equal(spread, equal):
    noisy = {"spread_percent": spread}
    text = message(side("cutile", duration_us=105.0, timing=noisy), side("cute", duration_us=100.0, timing=noisy))["M1"]
    assert ("within the noise" in text) == equal


def test_a_bound_is_not_a_time():
    result = message(side("cutile", kind="static", duration_us=40.0), side("cute", duration_us=20.0), FLOOR)
    assert "M1" not in result
    assert result["M2"].startswith("hand")


def test_bottleneck_is_that_of_the_profile():
    profile = {"tensor_core_percent": 20.0, "dram_percent": 75.0, "l2_hit_percent": 80.0, "dram_over_cost": 1.0}
    result = message(side("cutile", ncu={"bottleneck": classify(profile)}))
    assert result["M3"].startswith("tile is limited by DRAM (tensor core 20, dram 75")


def test_occupancy_and_flags():
    left = side("cutile", duration_us=40.0, occupancy_percent=50.0)
    right = side(
        "cute",
        **{"duration_us": 20.0, "occupancy_percent": 12.5},
        timing={"flags": ["two clocks differ by 7 %"]},
    )
    result = message(left, right)
    assert result["M5"] == "hand is faster with fewer resident warps (12.5 % vs 50 %)."
    assert result["M7"] == "hand: two clocks differ by 7 %."


def test_rules_have_ids_of_their_own_and_conditions():
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.id[0] == {"static": "S", "measured": "M"}[rule.basis]
        assert rule.condition.endswith(".")


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "0.123"), (51.68, "51.7"), (100.4, "100"), (12_345, "12\u202f345"), (0, "0")]
)
def test_number(value, text):
    assert number(value) == text
