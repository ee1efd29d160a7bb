"""Default variants compared with the best of their search on a GPU, as recorded."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from cutesnake.model.catalog import load_kernel, make_workload

ROOT = Path(__file__).resolve().parents[2]
SEARCHED = ("fmha", "fmha_backward", "gemm", "gemm_epilogue", "gemm_grouped", "mamba2_ssd")
WITHIN = 1.03  # of the fastest
FEW_BYTES = 8  # per thread: two registers, which other variants may cost more than they save
SPILL_ANYWAY = {"fmha_mixed_decode/cutile/sm_90a"}  # tiles of 32 tokens spill as much in int4


def searches():
    """Yield each recorded search of cuTile tiles on the H200: case, times by variant."""
    for operator in SEARCHED:
        for path in sorted((ROOT / "recorded/nvidia_h200").glob(f"autotune-{operator}-*.jsonl")):
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                times = {row["variant"]: row["cold_us"] for row in entry["metrics"]["variants"] if row["cold_us"]}
                yield entry["case"], times


def timings_of_products():
    """Yield cases of this project's Hopper products with several variants timed on the H200."""
    for path in sorted((ROOT / "recorded/nvidia_h200").glob("timing-*-cute_sm90.jsonl")):
        cases, times = {}, defaultdict(dict)
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            case = entry["case"]
            if case["operator"] != "mla_decode" and entry["status"] == "ok":
                cases[case["workload"]] = case
                times[case["workload"]][case["variant"]["id"]] = entry["metrics"]["cold_us"]
        yield from ((cases[workload], times[workload]) for workload in cases)


@pytest.mark.parametrize("cases", [searches, timings_of_products])
def test_nine_of_ten_defaults_are_within_three_percent_of_the_best_that_was_timed(cases):
    slow, count = [], 0
    for case, times in cases():
        module = load_kernel(case["operator"], case["kernel"])
        workload = make_workload(case["operator"], case["parameters"])
        default = module.variants(workload, case["target"])[0].id
        count += 1
        if times[default] > WITHIN * min(times.values()):
            slow.append((case["operator"], case["kernel"], case["workload"], times[default] / min(times.values())))
    assert count >= 30
    assert len(slow) <= count / 10, slow


def spilling():
    """Yield kernels and spilled bytes of recorded default builds that may have other variants."""
    for path in sorted((ROOT / "recorded/builds").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            functions = entry["records"].get("inspect", {}).get("functions", ())
            most = max((function["spill_bytes"] or 0 for function in functions), default=0)
            if most > FEW_BYTES:
                operator, kernel, target, _ = entry["build"].split("/")
                cases = (one.get("case", {}).get("parameters") for one in entry["records"].values())
                parameters = next((each for each in cases if each and "dtype" in each), None)
                module = load_kernel(operator, kernel)
                if not parameters or len(module.variants(make_workload(operator, parameters), target)) > 1:
                    yield f"{operator}/{kernel}/{target}", most


def test_a_default_build_spills_only_if_its_kernel_has_no_other_variant():
    assert {name: most for name, most in spilling() if name not in SPILL_ANYWAY} == {}
