"""Recorded measurements and small samples for the tests of verdicts."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from cutesnake.analysis.compare.noise import Time, noise
from cutesnake.analysis.evidence.recorded_set import files_of, read_recorded, standing
from cutesnake.analysis.verdict.decide import pairing
from cutesnake.analysis.verdict.facts import Contrast, Kernel
from cutesnake.model.paths import ROOT
from cutesnake.model.records.anatomy import AnatomyFunction
from cutesnake.model.records.inspect import Function
from cutesnake.model.records.ncu import Ncu
from cutesnake.model.records.predict import PredictMetrics
from cutesnake.model.records.timing import Timing
from cutesnake.model.records.verdict import Figure, Pairing

SET = ROOT / "recorded/nvidia_h200"
KEPT = ROOT / "tests/analysis/recorded"  # of 2026-11-23: a new set must not change what tests expect
PROCESSORS = 132


@cache
def timings(operator: str) -> dict[tuple[str, str], tuple[str, Timing]]:
    """(kernel, workload) -> path and recorded timing."""
    return _records(operator, "timing")


@cache
def profiles(operator: str) -> dict[tuple[str, str], tuple[str, Ncu]]:
    """(kernel, workload) -> path and recorded profile."""
    return _records(operator, "ncu")


def _records(operator: str, stage: str) -> dict[tuple[str, str], tuple[str, Any]]:
    folder = KEPT if any(KEPT.glob(f"{stage}-{operator}-*.jsonl")) else SET
    names = files_of((path.name for path in folder.glob("*.jsonl")), operator, stage)
    read = read_recorded(folder / name for name in names)
    kept = {id(entry) for entry in standing(read.values())}
    return {
        (entry.case.kernel, entry.case.workload): (path, entry)
        for path, entry in read.items()
        if id(entry) in kept and entry.status == "ok"
    }


def time(operator: str, kernel: str, workload: str, figure: Figure) -> Time:
    """Return a recorded time."""
    _, entry = timings(operator)[kernel, workload]
    us = entry.metrics.cold_us if figure == "cold" else entry.metrics.hot_us
    return Time(kernel, entry.case.variant.id, us, noise(figure, entry.metrics))


def pairs(operator: str, figure: Figure) -> list[Pairing]:
    """Return the fastest recorded kernels of both DSLs per workload."""
    result: dict[str, dict[str, Time]] = {}
    for (kernel, workload), (_, entry) in timings(operator).items():
        if entry.case.dsl not in ("cute", "cutile"):
            continue
        new, row = time(operator, kernel, workload, figure), result.setdefault(workload, {})
        if entry.case.dsl not in row or new.us < row[entry.case.dsl].us:
            row[entry.case.dsl] = new
    return [pairing(workload, row["cute"], row["cutile"]) for workload, row in result.items() if len(row) == 2]


def kernel(operator: str, name: str, workload: str, figure: Figure, near: str | None = None, **more: Any) -> Kernel:
    """Return facts of a recorded kernel.

    `near` is the profiled workload that stands for this one, as if this one were not profiled.
    """
    path, entry = timings(operator)[name, workload]
    profiled = profiles(operator).get((name, near or workload))
    return Kernel(
        name,
        entry.case.variant.id,
        entry.metrics.cold_us if figure == "cold" else entry.metrics.hot_us,
        entry.case.variant.params,
        timing=entry.metrics,
        timing_path=path,
        profiled=profiled is not None and near is None,
        near=profiled[1].metrics if profiled else None,
        near_path=profiled[0] if profiled else "",
        near_workload=(near or workload) if profiled else "",
        near_build=profiled is not None and profiled[1].case.variant == entry.case.variant,
        **more,
    )


def contrast(operator: str, workload: str, figure: Figure, fast: Kernel, slow: Kernel) -> Contrast:
    """Return two kernels on a recorded workload."""
    parameters = timings(operator)[fast.name, workload][1].case.parameters
    return Contrast(figure, workload, parameters, PROCESSORS, fast, slow)


def function(
    code_kb: float = 40, spills: int = 0, registers: int = 168, cluster: int = 1, products: int = 8
) -> Function:
    """Return static figures; `products` is the number of tensor-core instructions."""
    kinds = ("tma_load", "tma_store", "tma_multicast", "tma_reduce", "barrier", "special_function", "global_memory")
    kinds += ("shared_memory", "tensor_memory", "local_memory", "other")
    instructions = {"tensor_core": products, **dict.fromkeys(kinds, 1)}
    limits = dict.fromkeys(("shared_memory", "registers", "tensor_memory", "named_barriers", "warps", "blocks"))
    occupancy = {"blocks_per_sm": 1, "warps_per_sm": 12, "percent": 18.75, "limiter": "registers", "limits": limits}
    occupancy |= {"compute_capability": "9.0", "devices": ["H200"], "assumed": []}
    figures: dict[str, Any] = {
        **{"symbol": "main", "code_bytes": int(1024 * code_kb), "registers_per_thread": registers},
        **{"spill_bytes": spills, "stack_bytes": 0, "static_shared_bytes": 0, "dynamic_shared_bytes": 200_000},
        **{"reserved_shared_bytes": 1024, "threads_per_block": 384, "cluster_size": cluster},
        **{
            "tensor_memory_columns": 0,
            "setmaxnreg": [],
            "named_barriers": 1,
            "mbarriers": 8,
            "instructions": instructions,
        },
        **{"pipeline_stages": None, "occupancy": occupancy},
    }
    return msgspec.convert(figures, Function)


def anatomy(
    roles: list[dict[str, Any]] | None = None,
    widths: tuple[int, ...] = (),
    rings: tuple[int, ...] = (),
    persistent: bool | None = None,
    communicates: bool = False,
    counts: dict[str, int] | None = None,
    tensors: int = 2,
) -> AnatomyFunction:
    """Return a function.

    Its roles, columns of its products, and stages of the barriers that its loads arrive at.
    """
    result: dict[str, Any] = {
        "symbol": "main",
        "host": dict.fromkeys(("grid", "block", "cluster", "dynamic_shared_bytes", "attributes")),
        "descriptors": [_descriptor()] * tensors,
        "shared": {
            "limit_bytes": 232_448,
            **dict.fromkeys(("dynamic_bytes", "buffers", "padding_bytes", "left_bytes")),
        },
        "tensor_memory": {"columns": 0, "accumulators_at": None, "note": None},
        "registers": {"per_thread": 168, "setmaxnreg": [], "directives": {}},
        "roles": [_role(**role) for role in roles or []],
        "barriers": [_barrier(stages) for stages in rings],
        "pipelines": None,
        "named_barriers": None,
        "products": [_product(width) for width in widths],
        "counts": counts or {},
        "patterns": {
            "persistent loop": {"found": persistent, "evidence": "", "lines": []},
            "cluster communication": {"found": communicates, "evidence": "", "lines": []},
        },
        "contradictions": [],
    }
    return msgspec.convert(result, AnatomyFunction)


def _descriptor() -> dict[str, Any]:
    use = {"way": "load", "role": "load", "copies": 1, "multicast_to": 1, "lines": []}
    return {
        **{"tensor": "a", "element": "bf16", "sizes": [64], "strides_bytes": [2], "box": [64, 64], "box_bytes": 8192},
        **{"swizzle": "128 B", "fill": "zero", "uses": [use]},
    }


def _role(name: str, warps: int, tasks: list[str], registers: int = 232, first: int = 0) -> dict[str, Any]:
    return {
        **{"name": name, "warps": list(range(first, first + warps)), "tasks": tasks, "registers": [registers]},
        **{"ranks": None, "instructions": 1, "ran": {}, "lines": {}, "some": {}},
    }


def _barrier(stages: int) -> dict[str, Any]:
    arrivals = [{"kind": "copy", "role": "load", "per_phase": 1.0, "lines": []}]
    return {
        **{"name": "full", "offset": 0, "stages": stages, "count": 1, "phases_seen": 1, "never_used": 0},
        **{"from_other_cta": False, "arrivals": arrivals, "waits": []},
    }


def _product(columns: int) -> dict[str, Any]:
    return {
        **{"instruction": "wgmma.mma_async", "shape": [64, columns, 16], "kind": None, "cta_group": None, "types": {}},
        **{"a_in": "shared memory", "b_in": "shared memory", "d_in": "registers", "major": {}, "scale_factors": None},
        **{"descriptor_bits": None, "issued": 1, "lines": [], "roles": [], "words": ""},
    }


def prediction(
    launches: list[tuple[float, float]], bound: str, dram: float, tracks: dict[str, dict[str, float]]
) -> PredictMetrics:
    """Return a prediction.

    Begin and end of launches in µs, and of each track the share of time by kind of span.
    """
    made = [
        {
            **{"name": f"launch{place}", "start_us": begin, "end_us": end, "cycles": 1.0, "waves": 0.9},
            **{"blocks_per_sm": 1, "tensor_percent": 30.0, "dram_percent": dram, "l2_percent": 20.0},
        }
        for place, (begin, end) in enumerate(launches)
    ]
    band = {"percent": 30.0, "words": ""}
    end = max(end for _, end in launches)
    result = {
        **{"device": "B200", "sm_clock_mhz": 1965.0, "warm_us": end, "cold_us": end},
        "bounds": {"warm": bound, "cold": bound},
        "bands": {"warm": band, "cold": band},
        "launches": {"warm": made, "cold": made},
        **{"tensor_percent": 30.0, "dram_percent": dram, "l2_percent": 20.0, "notes": [], "lone_us": None},
        "parameters": {"measured": 0, "published": 1, "assumed": 1},
        "timeline": {
            **{"launch": "launch0", "cycles": 1000.0, "begin": 0.0, "end": 1000.0},
            "tracks": [
                {"name": f"CTA 0 {name}", "spans": [[kind, 0, 1000 * share, "", None] for kind, share in kinds.items()]}
                for name, kinds in tracks.items()
            ],
        },
    }
    return msgspec.convert(result, PredictMetrics)
