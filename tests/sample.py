"""Made-up records in the shape of real ones; nothing here was measured."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model.contract import Cost
from cutesnake.stages.profile.bottleneck import classify

Record = dict[str, Any]

NO_GPU = "no GPU here: no NVIDIA driver is installed"
ONLY_FP16 = "takes fp16 only"
KERNELS = {  # kernel -> dsl, source, targets, dtypes
    "cutlass_fp16": ("cute", "cutlass_cutedsl", ("sm_100a",), ("fp16",)),
    "tilegym": ("cutile", "tilegym", ("sm_90a", "sm_100a"), ("bf16", "fp16")),
    "cutile": ("cutile", "ours", ("sm_90a", "sm_100a"), ("bf16", "fp16")),
    "cute_sm90": ("cute", "ours", ("sm_90a",), ("bf16", "fp16")),
    "torch_sdpa": ("torch", "ours", ("sm_90a", "sm_100a"), ("bf16", "fp16")),
}
TARGETS = ("sm_90a", "sm_100a")
DEVICES = {  # name -> target, TFLOP/s, TB/s
    "H200": ("sm_90a", 989.0, 4.8),
    "B200": ("sm_100a", 2250.0, 8.0),
}
LIMITS = ("shared_memory", "registers", "tensor_memory", "named_barriers", "warps", "blocks")
SIMULATED = "cutlass_fp16/sm_100a"  # the one kernel that is checked by simulation
FAILS = ("tilegym", "sm_100a")  # this build fails, in its compiler's words
COMPILER_SAYS = "TileError: <b>tile</b> of 512 columns does not fit\n  in kernel.py line 12"


@dataclass(frozen=True)
class Workload:
    """A size of the made-up operator `blend`, which no folder of kernels/ holds."""

    batch: int
    length: int
    dtype: str

    @property
    def id(self) -> str:
        return f"b{self.batch}_s{self.length}_{self.dtype}"


def cost(workload: Workload) -> Cost:
    """In the range of an attention kernel's.

    Compute-bound on one of the DEVICES, memory-bound on the other.
    """
    tokens = workload.batch * workload.length
    return Cost(
        flops=2 * 128 * 1088 * tokens, bytes_read=2 * 576 * tokens, bytes_written=2 * 128 * 512 * workload.batch
    )


def workloads(batches: tuple[int, ...] = (1, 32), lengths: tuple[int, ...] = (1024, 8192)) -> list[Workload]:
    return [
        Workload(batch, length, dtype) for batch, length, dtype in itertools.product(batches, lengths, ("bf16", "fp16"))
    ]


def _not_simulated(dsl: str, written: bool, no: str) -> str | None:
    if not written:
        return no
    return None if dsl == "cute" else f"{dsl} builds cannot be simulated"


def plan(sweep: list[Workload], gpu: bool = False) -> Record:
    """results/plan/blend.json on a machine with no GPU, or with one H200."""
    decisions, builds, cases, unsupported = [], [], [], []
    for kernel, (dsl, source, targets, dtypes) in KERNELS.items():
        unsupported += [
            {"operator": "blend", "kernel": kernel, "workload": w.id, "reason": ONLY_FP16}
            for w in sweep
            if w.dtype not in dtypes
        ]
        for target in TARGETS:
            written = target in targets
            no = f"not written for {target}: it is for {', '.join(targets)}"
            runs = written and gpu and target == "sm_90a"
            why = NO_GPU if not gpu else f"code for {target} runs on another device; this device is an H200, sm_90"
            decisions.append(
                {
                    **{"operator": "blend", "kernel": kernel, "dsl": dsl, "source": source, "target": target},
                    "build": {"ok": written, "reason": None if written else no},
                    "run": {"ok": runs, "reason": None if runs else (why if written else no)},
                    "simulate": {"ok": written and dsl == "cute", "reason": _not_simulated(dsl, written, no)},
                }
            )
            if written:
                builds += [_build_id(kernel, target, dtype) for dtype in dtypes]
                cases += [
                    {"build": f"blend/{kernel}/{target}/{w.dtype}", "workload": w.id}
                    for w in sweep
                    if w.dtype in dtypes
                ]
    return {
        **{"stage": "plan", "status": "ok", "reason": None, "provenance": {}, "operator": "blend"},
        "axis": {"field": "length", "label": "length"},
        "stages": _replies(gpu),
        "decisions": decisions,
        "sources": {kernel: source for kernel, (_, source, _, _) in KERNELS.items()},
        "workloads": {w.id: asdict(w) for w in sweep},
        "dtypes": {target: ["bf16", "fp16"] for target in TARGETS},
        "builds": builds,
        "cases": cases,
        "simulated_cases": [{"build": f"blend/{SIMULATED}/fp16", "workload": _simulated(sweep).id}],
        "unsupported": unsupported,
        "profiled": [w.id for w in sweep if w.batch == 32],
        "predicted": {"devices": {}, "workloads": []},
    }


def _replies(gpu: bool) -> list[Record]:
    stages = ("correctness", "timing", "nsys", "ncu")
    return [{"stage": s, "ok": gpu, "reason": None if gpu else NO_GPU} for s in stages]


def arch(gpu: bool = False) -> Record:
    """arch.json of a machine with no GPU, or with one H200."""
    device = {
        **{"index": 0, "name": "NVIDIA H200", "compute_capability": [9, 0], "driver": "580.159"},
        **{"memory_bytes": 150_000_000_000, "multiprocessors": 132, "uuid_hash": "0123456789ab"},
    }
    return {
        **{"stage": "arch", "status": "ok", "reason": None if gpu else "no NVIDIA driver is installed"},
        "provenance": {"created": "2026-11-20T12:00:00+00:00"},
        **{"pretended": False, "devices": [device] if gpu else [], "selected": 0 if gpu else None},
        "fingerprint": "NVIDIA H200|sm_90" if gpu else "none",
        **{"limits": {}, "readings": {}},
        "tools": {"ncu": gpu, "nsys": gpu, "gcc": True},
        "packages": {"nvidia-cutlass-dsl": "4.8.1", "cuda-tile": "1.7.0", "torch": "2.13.0+cpu", "cuda-bench": None},
        "modules": {},
        "stages": _replies(gpu),
        "operators": ["blend"],
    }


def _build_id(kernel: str, target: str, dtype: str) -> Record:
    variant = {"id": dtype, "params": {"dtype": dtype, "tile_n": 64}}
    return {"operator": "blend", "kernel": kernel, "target": target, "variant": variant}


def build(identity: Record) -> Record:
    """build.json; the kernel and target of FAILS did not compile."""
    dsl, source, _, _ = KERNELS[identity["kernel"]]
    failed = (identity["kernel"], identity["target"]) == FAILS
    compilers = {"cute": {"nvidia-cutlass-dsl": "4.8.1"}, "cutile": {"cuda-tile": "1.7.0"}, "torch": {}}[dsl]
    names = () if failed or dsl == "torch" else ("kernel.ptx", "kernel.cubin", "kernel.sass")
    return {
        **{"stage": "compile", "status": "failed" if failed else "ok", "reason": COMPILER_SAYS if failed else None},
        "provenance": {"created": "2026-11-20T12:01:00+00:00", "python": "3.11.7", "platform": "Linux x86_64"},
        **{"operator": "blend", "kernel": identity["kernel"], "dsl": dsl, "source": source},
        **{"target": identity["target"], "variant": identity["variant"]},
        **{"symbols": [] if failed else ["main_kernel", "combine"], "function": None, "launch": {}},
        **{"compilers": compilers, "options": "--gpu-arch", "notes": []},
        "files": {name: "0" * 64 for name in names},
        **{"seconds": 2.5, "log_tail": COMPILER_SAYS if failed else ""},
    }


def function(kernel: str, target: str, symbol: str = "main_kernel") -> Record:
    """Static figures of one device function."""
    hand = KERNELS[kernel][0] == "cute"
    registers, shared = (168, 232_448) if hand else (255, 220_636)
    return {
        **{"symbol": symbol, "registers_per_thread": registers, "spill_bytes": 0 if hand else 48, "stack_bytes": 0},
        **{"static_shared_bytes": 1024 if hand else 0, "dynamic_shared_bytes": shared - (1024 if hand else 0)},
        **{"threads_per_block": 384 if hand else 256, "cluster_size": 2 if hand else 1},
        "tensor_memory_columns": 512 if target == "sm_100a" else None,
        "setmaxnreg": [96, 208] if hand else [],
        **{"code_bytes": 39_040, "reserved_shared_bytes": 1024, "named_barriers": 1, "mbarriers": 12},
        "instructions": {
            **{"tensor_core": 56 if hand else 136, "tma_load": 59 if hand else 0, "tma_store": 4},
            **{
                "tma_multicast": 12 if hand else 0,
                "tma_reduce": 0,
                "tensor_memory": 0,
                "barrier": 96,
                "special_function": 64,
            },
            **{"global_memory": 20, "shared_memory": 310, "local_memory": 0 if hand else 12, "other": 4200},
        },
        "pipeline_stages": [3, 2] if hand else None,
        "occupancy": {
            **{"blocks_per_sm": 1, "warps_per_sm": 12 if hand else 8, "percent": 18.75 if hand else 12.5},
            "limiter": "shared_memory",
            "limits": dict.fromkeys(LIMITS) | {"shared_memory": 1},
            **{"compute_capability": "9.0", "devices": ["H200"], "assumed": []},
        },
    }


def inspected(identity: Record) -> Record:
    kernel, target = identity["kernel"], identity["target"]
    return {
        **{"stage": "inspect", "status": "ok", "reason": None, "provenance": build(identity)["provenance"]},
        **{key: build(identity)[key] for key in ("operator", "kernel", "dsl", "source", "target", "variant")},
        "functions": [function(kernel, target), function(kernel, target, "combine")],
        "notes": [],
    }


def roofline(sweep: list[Workload]) -> list[Record]:
    rows = []
    for w, (device, (target, tflops, tbs)) in itertools.product(sweep, DEVICES.items()):
        work = cost(w)
        compute, memory = work.flops / tflops / 1e6, work.bytes / tbs / 1e6
        rows.append(
            {
                **{"workload": w.id, "dtype": w.dtype, "device": device, "target": target},
                "match": [f"NVIDIA {device}"],
                "compute_capability": {"sm_90a": "9.0", "sm_100a": "10.0"}[target],
                **{"compute_us": compute, "memory_us": memory, "reason": None},
                **{"flops": work.flops, "bytes": work.bytes, "intensity": work.flops / work.bytes},
                **{"peak_tflops": tflops, "memory_gb_per_s": tbs * 1e3, "ridge": tflops / tbs},
                **{"bound": "compute" if compute > memory else "memory", "floor_us": max(compute, memory)},
            }
        )
    return rows


def _case(stage: str, kernel: str, target: str, w: Workload, metrics: Record, backend: str = "cuda") -> Record:
    gpu = {"name": "NVIDIA H200", "compute_capability": [9, 0], "driver": "580.159", "uuid_hash": "0123456789ab"}
    return {
        **{"stage": stage, "status": "ok", "reason": None},
        "provenance": {
            **{"created": "2026-11-19T10:00:00+00:00", "commit": "abcdef123456", "python": "3.12.3"},
            "packages": {"torch": "2.11.0", "cuda-bench": "0.3.0"},
        },
        "case": {
            **{"operator": "blend", "kernel": kernel, "dsl": KERNELS[kernel][0], "target": target},
            **{"variant": {"id": w.dtype, "params": {}}, "workload": w.id, "parameters": asdict(w)},
        },
        **{"device": gpu if backend == "cuda" else None, "backend": backend, "seconds": 3.0, "metrics": metrics},
    }


def timing(kernel: str, w: Workload, factor: float) -> Record:
    """A made-up time: a constant, plus the work at a rate that `factor` divides."""
    hot = 8.0 + factor * cost(w).flops / 600e6 * (1 + 0.05 * random.Random(f"{kernel}{w.id}").random())
    cold = 1.2 * hot
    return {
        **{"cold_us": cold, "cold_min_us": 0.99 * cold, "cold_max_us": 1.02 * cold, "spread_percent": 0.8},
        **{"samples": 400, "throttled_samples": 0, "hot_us": hot, "hot_samples": 4000},
        **{"second_source_us": hot * 1.01, "difference_percent": 1.0, "sm_clock_mhz": 1980, "power_w": 640.0},
        **{"median_power_w": 600.0, "temperature_c": 51, "throttle_reasons": [], "kernels_per_call": 2},
        **{"calls_per_graph": 10, "tflops": cost(w).flops / cold / 1e6, "hot_tflops": cost(w).flops / hot / 1e6},
        **{"bandwidth_gb_per_s": cost(w).bytes / cold / 1e3, "hot_bandwidth_gb_per_s": cost(w).bytes / hot / 1e3},
        **{"flags": [], "measuring_seconds": 2.0},
    }


def ncu(w: Workload, factor: float) -> Record:
    tensor = 72.0 / factor
    kernel = {
        **{"duration_us": 70.0, "tensor_core_percent": tensor, "dram_percent": 30.0, "l2_hit_percent": 44.0},
        **{"occupancy_achieved_percent": 12.3, "occupancy_theoretical_percent": 12.5, "registers_per_thread": 168},
        **{"waves": 1.0, "eligible_warps": 0.4, "issue_active_percent": 20.0, "sm_throughput_percent": tensor},
        **{"spill_instructions": 0, "shared_bytes_per_block": 230_816, "occupancy_limiter": "shared_memory"},
        **{"blocks_per_sm": 1, "spill_bytes": 0, "grid": [132, 1, 1], "block": [384, 1, 1], "cluster_size": 1},
        **{"sm_clock_mhz": 1980.0, "stalls": {"long_scoreboard": 0.4, "barrier": 0.2}, "dram_bytes": 150_000_000},
    }
    return {
        **kernel,
        **{"main_kernel": "main_kernel", "total_duration_us": 78.0, "achieved_tflops": 500.0},
        **{"achieved_gb_per_s": 2000.0, "cost_bytes": cost(w).bytes, "dram_over_cost": 150e6 / cost(w).bytes},
        **{"kernels": [{"name": "main_kernel", **kernel}], "notes": []},
        "bottleneck": classify({**kernel, "dram_over_cost": 1.0}),
        "opportunities": [
            {
                **{"rule": "WarpStall", "text": "Warps wait for <memory>", "metric": "long_scoreboard"},
                **{"value": 0.4, "estimated_speedup_percent": 12.0},
            }
        ],
    }


def nsys() -> Record:
    def launch(name: str, call: int, start: float, duration: float) -> Record:
        return {
            **{"name": name, "call": call, "start_us": start, "duration_us": duration, "stream": 7},
            **{"grid": [132, 1, 1], "block": [384, 1, 1], "registers_per_thread": 168, "shared_bytes": 230_816},
            **{"launch_start_us": start - 4.0, "launch_call_us": 2.0, "launch_latency_us": 4.0},
        }

    return {
        "kernels": [
            *(launch("main_kernel", 0, 0.0, 90.0), launch("combine", 0, 91.5, 8.0)),
            *(launch("main_kernel", 1, 120.0, 60.0), launch("combine", 1, 181.5, 8.0)),
        ],
        "timing_check": {
            **{"made": True, "agrees": True, "reason": None, "busy_us": 83.0, "span_us": 84.5, "fastest_us": 80.0},
            **{"slowest_us": 96.0, "difference_percent": 0.0},
        },
        **{
            "spacing": "lone",
            "calls": 2,
            "kernels_per_call": 2,
            "gaps_us": [1.5, 1.5],
            "overlap_us": 0.0,
            "launch_latency_us": 4.0,
        },
        **{"launch_call_us": 2.0, "device_us": 69.5, "streams": [7], "nvtx": [], "measuring_seconds": 1.0},
    }


def correctness(workload: str, seeds: tuple[int, ...] = (0, 1), **more: list[str]) -> Record:
    checks = [
        {
            **{"workload": workload, "distribution": "randn", "seed": seed, **more},
            **{"relative_error": 1.7e-3, "same_precision_error": 1.6e-3, "worst_absolute_error": 0.01},
            **{"deterministic": True, "passed": True, "reason": None},
            "outputs": {"scale": {"relative_error": None, "worst_absolute_error": 1e-4, "passed": True}},
        }
        for seed in seeds
    ]
    return {
        **{"checks": checks, "skipped": [], "passed": len(checks), "failed": 0},
        **{"worst_relative_error": 1.7e-3, "deterministic": True},
    }


def measurements(sweep: list[Workload], target: str = "sm_90a") -> dict[str, Record]:
    """Timing of every kernel of a target, profiles of the larger batch, correctness.

    Path -> record.
    """
    result = {}
    factors = {"tilegym": 3.0, "cutile": 2.0, "cute_sm90": 1.1, "cutlass_fp16": 1.0, "torch_sdpa": 6.0}
    for kernel, (_, _, targets, dtypes) in KERNELS.items():
        for w in sweep:
            if target not in targets or w.dtype not in dtypes:
                continue
            place = f"blend/{kernel}/{target}/{w.dtype}/{w.id}.json"
            made = {
                "timing": timing(kernel, w, factors[kernel]),
                "correctness": correctness(w.id),
            }
            if w.batch == 32:
                made |= {"ncu": ncu(w, factors[kernel]), "nsys": nsys()}
            for stage, metrics in made.items():
                result[f"results/{stage}/{place}"] = _case(stage, kernel, target, w, metrics)
    return result


def simulated(sweep: list[Workload]) -> dict[str, Record]:
    """Correctness of one SM100 case by the PTX simulator."""
    w = _simulated(sweep)
    metrics = correctness(w.id, (3, 4), schedules=["random"], findings=[])
    entry = _case("correctness", *SIMULATED.split("/"), w, metrics, "ptxsim")
    return {f"results/correctness/blend/{SIMULATED}/fp16/{w.id}.json": entry}


def _simulated(sweep: list[Workload]) -> Workload:
    return next(w for w in sweep if w.dtype == "fp16")


def evidence(sweep: list[Workload] | None = None, gpu: bool = False, recorded: bool = False) -> Evidence:
    sweep = sweep or workloads()
    local = plan(sweep, gpu)
    path = "results/compile/blend/{kernel}/{target}/{id}/build.json"
    builds = {path.format(**b, id=b["variant"]["id"]): build(b) for b in local["builds"]}
    figures = {
        f"results/inspect/blend/{b['kernel']}/{b['target']}/{b['variant']['id']}.json": inspected(b)
        for b in local["builds"]
        if (b["kernel"], b["target"]) != FAILS and KERNELS[b["kernel"]][0] != "torch"
    }
    live = (measurements(sweep) if gpu else {}) | simulated(sweep)
    kept = {f"recorded/h200/{p}": r for p, r in measurements(sweep).items()} if recorded else {}
    return Evidence(local, builds, figures, roofline(sweep), live, kept)


def replace(result: Evidence, **fields: Any) -> Evidence:
    """A copy with other fields, and nothing cached."""
    kept = {name: getattr(result, name) for name in Evidence.__dataclass_fields__}
    return Evidence(**{**kept, **fields})


def write(folder: Path, result: Evidence) -> tuple[str, list[str], str]:
    """Lay the evidence out as files below `folder`, as the pipeline does.

    Returns the paths for `load_evidence`.
    """
    records = {**result.builds, **result.inspected, **result.measured}
    roofline_path = "results/inspect/blend/roofline.json"
    made = {"created": "2026-11-20T12:00:00+00:00", "python": "3.11.7", "platform": "Linux x86_64"}
    rows = {
        **{"stage": "roofline", "status": "ok", "reason": None, "provenance": made},
        **{"operator": "blend", "rows": result.roofline},
    }
    for path, entry in {**records, "results/plan/blend.json": result.plan, roofline_path: rows}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(entry))
    return "results/plan/blend.json", list(records), roofline_path
