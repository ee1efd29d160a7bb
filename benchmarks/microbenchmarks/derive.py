"""The parameters of ptxsim's clock that these benchmarks give, from a results file.

    python -m benchmarks.microbenchmarks.derive RESULTS.json                               # prints them
    python -m benchmarks.microbenchmarks.derive RESULTS.json --write ptxsim/devices/X.yaml # and enters them there

What a kernel under prediction took plays no part in them. A parameter that is not listed here stays what the
table says.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HAND_OVER = (
    14  # instructions between two barrier operations of the ping-pong kernels, cycles (estimated from their SASS)
)
FIRST_PASS = 1.1  # times what the large instruction cache takes, up to which a first pass is taken to have it there
AHEAD = 1.1  # times as long as alone, up to which a burst is taken not to wait for others
TILES = (1, 16, 132, 264)  # CTAs
KEPT = 1.1  # times as fast as DRAM, from which what is read again is taken to have stayed in L2
DRAM_SWEEPS = (("ld_cg_16", {"sms": "all"}), ("copy", {"footprint_bytes": 1 << 30}))
ARRIVE = 20  # of a hop, what is counted as the arrival (assumed; only the sum with the wake-up is measured)
TMA_ISSUE = 60  # from a wake-up to the TMA instruction in the ring kernels, cycles (estimated from their SASS)
HOP = 8 + 6  # issue slots and encoded stalls of a piece of code and its branch, cycles (from their SASS)
CTA_START = 300  # assumed; only its sum with the interval is measured
FRAME = (
    150  # what the timed kernels do before their first and behind their last stamp, cycles (estimated from their SASS)
)


@dataclass(frozen=True)
class Results:
    """A results file; `value` and `also` look rows up by name and parameters."""

    gpu: dict[str, Any]
    rows: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Results:
        result = json.loads(path.read_text())
        return cls(result["card"], result["benchmarks"])

    def row(self, name: str, **wanted: Any) -> dict[str, Any]:
        """Return the first such row; KeyError if there is none or it failed."""
        for row in self.rows:
            if row["name"] == name and all(row["parameters"].get(key) == value for key, value in wanted.items()):
                if row["error"] is not None:
                    raise KeyError(f"{name} {wanted} failed: {row['error']}")
                return row
        raise KeyError(f"no benchmark {name!r} with {wanted}")

    def value(self, name: str, **wanted: Any) -> float:
        return float(self.row(name, **wanted)["value"])

    def tma(self, kernel: str, box_kib: int, slots: int, sms: Any, source: str = "L2", **more: Any) -> dict[str, Any]:
        wanted = {
            "box_bytes": box_kib * 1024,
            "boxes_in_flight": slots,
            "sms": sms,
            "from": source,
            "row_pitch_bytes": 128,
        }
        return self.row("TMA", kernel=kernel, **wanted, **more)

    def sweep(self, kernel: str, source: str, **wanted: Any) -> dict[str, Any]:
        return self.row("global bandwidth", kernel=kernel, **{"from": source}, **wanted)


def hop(results: Results) -> float:
    """Arrival to the next instruction of the one that waited, cycles."""
    what = "mbarrier.arrive to try_wait, there and back"
    return results.value("synchronization", what=what) / 2 - HAND_OVER


def remote_hop(results: Results) -> float:
    what = "remote mbarrier.arrive to try_wait, there and back, default scope"
    return results.value("synchronization", what=what) / 2 - HAND_OVER


def tma_latency(results: Results) -> float:
    """Extrapolate a box of no bytes along the line through 8 and 16 KiB."""
    small, large = (results.tma("ring_tensor", kib, 1, 1)["also"]["cycles_per_box"] for kib in (8, 16))
    return float(2 * small - large) - (hop(results) - ARRIVE) - TMA_ISSUE


def tma_dram_latency(results: Results) -> float:
    near, far = (results.tma("ring_tensor", 1, 1, 1, source)["also"]["cycles_per_box"] for source in ("L2", "DRAM"))
    return tma_latency(results) + far - near


def store_latency(results: Results) -> float:
    small, large = (results.tma("store_alone", kib, 1, 1)["also"]["cycles_per_box"] for kib in (4, 16))
    return float(small - (large - small) / 3) - TMA_ISSUE


def code_size(results: Results, limit: float) -> float:
    """Return the largest code that one warp fetches at `limit` cycles per instruction."""
    rows = [row for row in results.rows if row["name"] == "loop over straight code" and row["parameters"]["warps"] == 1]
    return float(max(row["parameters"]["code_kib"] for row in rows if row["value"] <= limit) * 1024)


def fetch(results: Results, kib: int) -> float:
    return results.value("loop over straight code", code_kib=kib, warps=4)


def brought(results: Results) -> float:
    """Return the largest code whose first pass is hardly slower than from the cache."""
    rows = [row for row in results.rows if row["name"] == "first pass after loading the module"]
    usual = FIRST_PASS * fetch(results, 96)
    return float(max(row["parameters"]["code_kib"] for row in rows if row["value"] <= usual) * 1024)


def fetch_dram(results: Results) -> float:
    """Return flushed cycles per instruction of 384 KiB of straight code, but for 256 KiB."""
    name = "straight code once, alone"
    few, many = (results.value(name, code_kib=kib, ctas=132, flush="memset") * kib for kib in (256, 384))
    return (many - few) / (384 - 256)


def dram_flushed(results: Results) -> float:
    """Return how much longer shared tiles take after a flush, beyond DRAM's latency."""

    def longer(kernel: str) -> float:
        result = [
            [results.value("tiles one after the other", kernel=kernel, ctas=n, same=True, flush=flush) for n in TILES]
            for flush in ("memset", "none")
        ]
        return statistics.mean(result[0]) - statistics.mean(result[1])

    loads = (
        longer("tiles_loaded")
        - DERIVATIONS["dram_latency"].compute(results)
        + DERIVATIONS["l2_latency"].compute(results)
    )
    copies = longer("tiles_copied4096") - DERIVATIONS["tma_dram_latency"].compute(results)
    return (loads + copies + DERIVATIONS["tma_latency"].compute(results)) / 2


def l2_bytes(results: Results) -> float:
    """Return the largest footprint read repeatedly at 90 % of the smaller ones' speed."""
    rows = [row for row in results.rows if row["name"] == "L2 residency"]
    best = max(row["value"] for row in rows)
    return float(max(row["also"]["footprint_bytes"] for row in rows if row["value"] >= 0.9 * best))


def l2_again_bytes(results: Results) -> float:
    """Return the largest footprint that successive launches read faster than from DRAM."""
    dram = float(results.sweep("ld_cg_16", "DRAM", sms="all")["also"]["gb_per_s"])
    gap = DERIVATIONS["launch_gap_us"].compute(results)
    kept = []
    for row in results.rows:
        if row["name"] == "launches over the same bytes" and row["parameters"]["kernel"] == "read":
            footprint, seconds = row["also"]["footprint_bytes"], (row["value"] - gap) * 1e-6
            kept += [footprint] if footprint > KEPT * dram * 1e9 * seconds else []
    if not kept:
        raise KeyError("no launches over the same bytes")
    return float(max(kept))


def l2_overrun(results: Results) -> float:
    """Return k of the miss rate 1 - exp(-k (ratio - 1)).

    `ratio` is the footprint over what L2 keeps. k is the mean over footprints up to half as much again. As DRAM bounds
    such a read, the share is its bandwidth over the speed.
    """
    kept, dram = l2_bytes(results), float(results.sweep("ld_cg_16", "DRAM", sms="all")["also"]["gb_per_s"])
    rows = [(row["also"]["footprint_bytes"] / kept, row) for row in results.rows if row["name"] == "L2 residency"]
    missed = [(ratio, min(dram / row["also"]["gb_per_s"], 0.99)) for ratio, row in rows if 1 < ratio < 1.5]
    return statistics.mean(-math.log(1 - share) / (ratio - 1) for ratio, share in missed)


def flush_dirty_share(results: Results) -> float:
    """Return the share of L2 that a flush leaves dirty.

    That is how much longer single reads take behind the flush than behind clean lines, in bytes written back meanwhile,
    over the bytes of L2 that they replace (at random).
    """
    kept, shares = l2_bytes(results), []
    read, both = (float(results.sweep(kernel, "DRAM", **more)["also"]["gb_per_s"]) for kernel, more in DRAM_SWEEPS)
    cost = max(2 * read / both - 1, 0.0) / read  # of a byte written, as the clock counts it
    for steps in (8, 16, 32, 64):
        wanted = {"steps_of_the_grid": steps, "kernel": "read"}
        dirty, clean = (
            results.row("events around a lone read", flush=flush, **wanted)
            for flush in ("memset", "memset, then reads")
        )
        written = 1e3 * (dirty["value"] - clean["value"]) / cost
        shares.append(written / (kept * (1 - math.exp(-dirty["also"]["bytes"] / kept))))
    return statistics.mean(shares)


def slow_division(results: Results, warps: int, chains: int) -> float:
    """Return what the subroutine adds if one lane of a warp needs it."""
    name, wanted = "div.rn.f32 and a multiply-add before it", {"lanes": "one", "warps": warps, "chains": chains}
    return results.value(name, operands="3 / infinity", **wanted) - results.value(name, operands="3 / 1.5", **wanted)


def descriptor_latency(results: Results) -> float:
    acquired, kept = (
        results.value("a TMA descriptor in global memory", what=what, sms=1) for what in ("acquire_fetch", "fetch")
    )
    return acquired - kept


def tma_ahead_bytes(results: Results) -> float:
    """Return an SM's TMA bytes that were requested before a load and not sent."""
    alone, copying = (results.row("loads from L2 beside copies by TMA", sms="all", copies=x) for x in (False, True))
    return float((copying["value"] - alone["value"]) * copying["also"]["bytes_per_cycle_of_an_sm"])


def local_store(results: Results) -> float:
    """Return GB/s of stores of spilled registers, half of the mean that moves."""
    name = "registers spilled by ptxas"
    moved = [r["also"]["gb_per_s"] for r in results.rows if r["name"] == name and r["parameters"]["sms"] == "all"]
    if not moved:
        raise KeyError(f"no {name}")
    return statistics.mean(moved) / 2


def shared_gain(results: Results, ctas: int) -> float:
    alone, several = (
        results.value("TMA from L2, the same bytes for several", ctas_that_fetch_the_same=n, box_bytes=32768)
        for n in (1, ctas)
    )
    return several / alone


def queueing(results: Results, source: str, limit: str) -> float:
    """Return the delay of a box beside other SMs', over the used bandwidth's cube.

    It is the median of one, two and three boxes in flight. source: L2 or DRAM; limit: the parameter that has its
    bandwidth in GB/s.
    """
    alone = results.tma("ring_tensor", 8, 1, 1, source)["also"]["cycles_per_box"]
    bandwidth = DERIVATIONS[limit].compute(results)
    beside = [results.tma("ring_tensor", 8, n, "all", source)["also"] for n in (1, 2, 3)]
    return statistics.median(
        (x["cycles_from_issue_to_wait"] - alone) / (x["gb_per_s"] / bandwidth) ** 3 for x in beside
    )


STAGES = "stages of tiles loaded by TMA"


def shared_kept(results: Results, *strides: int) -> float:
    """Return what CTAs so far apart keep of neighbours' gain by sharing B, median."""
    kept = []
    for row in (r for r in results.rows if r["name"] == STAGES and r["parameters"]["stride"] in strides):
        wanted, part = row["parameters"] | {"stride": 1}, row["also"]["bytes_of_b"] / row["also"]["bytes_of_a"]
        alone, near = (results.value(STAGES, **wanted | more) for more in ({"sharers": 1}, {}))
        gains = [part / ((1 + part) * cycles / alone - 1) for cycles in (near, row["value"])]
        kept.append((gains[1] - 1) / (gains[0] - 1))
    if not kept:
        raise KeyError(f"no {STAGES}")
    return statistics.median(kept)


def fill_cost(results: Results) -> float:
    """Return how many bytes' time of L2 a byte takes longer from DRAM."""
    costs, bandwidth = [], DERIVATIONS["l2_gb_per_s"].compute(results)
    for row in (r for r in results.rows if r["name"] == STAGES and r["parameters"]["k"] > 512):
        rows = (row, results.row(STAGES, **row["parameters"] | {"k": 512}))
        dram, l2 = (x["value"] / x["sm_clock_mhz"] for x in rows)  # µs
        fetched = row["also"]["bytes_of_a"] + row["also"]["bytes_of_b"] / row["parameters"]["sharers"]
        costs.append((dram - l2) * 1e3 * bandwidth / fetched)
    if not costs:
        raise KeyError(f"no {STAGES}")
    return statistics.median(costs)


def outstanding(results: Results) -> float:
    latency = results.value("global latency", **{"from": "DRAM"})
    return float(results.sweep("ld_cg_16", "DRAM", sms=1)["value"]) * latency


def wave(results: Results, cluster: int) -> float:
    """Return a wave's cost beyond 2,000 cycles, with 384 threads and 200 KiB each."""
    result = results.value("wave of CTAs that spin 2,000 cycles", threads=384, cluster=cluster)
    return result * results.gpu["largest_sm_clock_mhz"] / 1000 - 2000 - FRAME


def single_graph(results: Results, threads: int = 128, **more: Any) -> float:
    """Return the time between events around a graph of one launch, behind the flush."""
    wanted = {"flush": "memset", "kernel": "nothing", "through": "graph", "ctas": 1, "launches": 1} | more
    return results.value("events around a lone graph", threads=threads, **wanted)


def graph_gap(results: Results) -> float:
    """Return how much longer graphs of 8 take than 8 launches in longer ones."""
    result = []
    for row in (r for r in results.rows if r["name"] == "graph after graph" and r["parameters"]["launches"] == 8):
        some, many = (results.value(row["name"], **(row["parameters"] | {"launches": n})) for n in (16, 32))
        result.append(row["value"] - (many - some) / 2)
    if not result:
        raise KeyError("no graph after graph")
    return statistics.mean(result)


def once(results: Results, kernel: str, ctas: int) -> float:
    """Microseconds of a launch that are not between the stamps of its median CTA."""
    row = results.row("once in a launch, warm", kernel=kernel, ctas=ctas)
    return float(row["value"] - row["also"]["cycles_inside"] / results.gpu["largest_sm_clock_mhz"])


def launch_map(results: Results) -> float:
    pairs = (("1", 1), ("1", 132), ("2", 132), ("4", 132))
    return statistics.mean(once(results, f"maps{n}", ctas) - once(results, f"bulk{n}", ctas) for n, ctas in pairs)


def dram_first(results: Results) -> float:
    rows = (
        results.row("once in a launch, alone", kernel="load_one", ctas=132, flush=flush) for flush in ("none", "memset")
    )
    slowest = [row["also"]["cycles_of_the_slowest"] for row in rows]
    places = {"L2": 4 << 20, "DRAM": 256 << 20}
    l2, dram = (results.value("global latency", **{"from": x}, footprint_bytes=size) for x, size in places.items())
    return float(slowest[1] - slowest[0] - (dram - l2))


def jump(results: Results) -> float:
    """Of 32 pieces of 8 instructions with a branch behind each, in 16 KiB."""
    row = results.row("once in a launch, warm", kernel="hops32", ctas=1)
    return float(row["also"]["cycles_inside"] / 32 - HOP)


def cta_fill(results: Results) -> float:
    """Of 1,056 CTAs on 132 SMs against 132, in a graph."""
    many, one = (
        results.row("launch period", ctas=ctas, threads=128, spin_cycles=0, through="graph", dependent_launch="no")
        for ctas in (1056, 132)
    )
    apart = many["also"]["first_to_last_start_ns"] - one["also"]["first_to_last_start_ns"]
    return float(apart * results.gpu["largest_sm_clock_mhz"] / 1000 / 7)


def ahead(results: Results) -> float:
    """Return the largest burst at most a tenth slower than on one SM, median."""
    kept = []
    rows = [r for r in results.rows if r["name"] == "burst" and r["parameters"]["what"] == "burst_copy"]
    for row in (r for r in rows if r["parameters"]["sms"] == 1):
        size = row["parameters"]["burst_kib"]
        times = [r["value"] for r in rows if r["parameters"]["sms"] == "all" and r["parameters"]["burst_kib"] == size]
        kept += [size * 1024] if statistics.median(times) <= AHEAD * row["value"] else []
    if not kept:
        raise KeyError("no bursts")
    return float(max(kept))


@dataclass(frozen=True)
class Derivation:
    """How a parameter follows from the results, to `digits` significant digits, and its description."""

    how: str
    compute: Callable[[Results], float]
    digits: int = 3


def of_row(
    how: str, row: str, where: dict[str, Any], also: str = "", per: float = 1, less: float = 0, digits: int = 3
) -> Derivation:
    """Return the derivation of an entry of parameters.toml, which says what the arguments are."""

    def compute(results: Results) -> float:
        entry = results.row(row, **where)
        return float(entry["also"][also] if also else entry["value"]) / per - less

    return Derivation(how, compute, digits)


ONE_ROW = tomllib.loads(Path(__file__).with_name("parameters.toml").read_text())
DERIVATIONS: dict[str, Derivation] = {
    **{name: of_row(**entry) for name, entry in ONE_ROW.items()},
    "slow_division_latency": Derivation(
        "div.rn.f32 of 3 by infinity in one lane against 3 by 1.5, 1 warp", lambda r: slow_division(r, 1, 1)
    ),
    "slow_division_issue_cycles": Derivation(
        "the same, 16 warps, cycles of a scheduler", lambda r: slow_division(r, 16, 4)
    ),
    "jump_cycles": Derivation(
        "once in a launch, warm: 32 pieces of code in 16 KiB, less what their instructions take", jump
    ),
    "fetch_small_bytes": Derivation("loop over straight code, 1 warp", lambda r: code_size(r, 1.5), 6),
    "fetch_large_bytes": Derivation("loop over straight code, 1 warp", lambda r: code_size(r, 3.5), 6),
    "fetch_ahead_bytes": Derivation(
        f"first pass after loading the module: the largest code at {FIRST_PASS:g} times fetch_large_cycles at most",
        brought,
        6,
    ),
    "fetch_dram_cycles": Derivation(
        "straight code once, alone, behind a flush, all SMs: 384 KiB beyond 256", fetch_dram
    ),
    "dsm_bytes_per_cycle": Derivation(
        "distributed shared memory, all SMs: mean of ld and st",
        lambda r: (
            sum(
                r.value("distributed shared memory", instruction=f"{kind}.shared::cluster.v4.u32", sms="all")
                for kind in ("ld", "st")
            )
            / 2
        ),
    ),
    "mbarrier_wake_latency": Derivation(
        f"mbarrier ping-pong: half a round trip, less {HAND_OVER} cycles of instructions and {ARRIVE} (assumed) "
        "of the arrival",
        lambda r: hop(r) - ARRIVE,
    ),
    "mbarrier_remote_latency": Derivation(
        f"remote mbarrier ping-pong: half a round trip, less {HAND_OVER} cycles of instructions and the wake-up",
        lambda r: remote_hop(r) - (hop(r) - ARRIVE),
    ),
    "l2_bytes": Derivation("L2 residency: largest footprint at nine tenths of full speed", l2_bytes),
    "l2_again_bytes": Derivation(
        "launches over the same bytes: the largest read a tenth faster than DRAM could", l2_again_bytes
    ),
    "l2_overrun": Derivation(
        "L2 residency: footprints of 1 to 1.5 times l2_bytes, whose misses are DRAM's bandwidth over theirs",
        l2_overrun,
        2,
    ),
    "flush_dirty_share": Derivation(
        "lone reads of 17 to 138 MB: behind the flush against behind clean lines, mean of four", flush_dirty_share, 2
    ),
    "l2_shared_gain": Derivation(
        "ld.global.cg.v4 over 4 MiB, each byte by four CTAs at a time, against 16 MiB, each by one",
        lambda r: (
            r.sweep("ld_cg_16", "L2 by footprint", footprint_bytes=4 << 20)["value"]
            / r.sweep("ld_cg_16", "L2", sms="all")["value"]
        ),
    ),
    "local_store_gb_per_s": Derivation(
        "registers spilled by ptxas, all SMs: half of what moves, mean over numbers of registers and of warps and two "
        "sizes of L1",
        local_store,
    ),
    "load_outstanding_bytes": Derivation(
        "ld.global.cg.v4 over 4 GiB, one SM: bandwidth times latency; at least this", outstanding
    ),
    "tma_latency": Derivation(
        f"TMA, a lone box from L2, 8 and 16 KiB continued to none; less the wake-up and {TMA_ISSUE} cycles of issue",
        tma_latency,
    ),
    "tma_dram_latency": Derivation("tma_latency and what a lone box of 1 KiB takes longer from DRAM", tma_dram_latency),
    **{
        f"tma_shared_gain{name}": Derivation(
            f"TMA from L2, boxes of 32 KiB that {ctas} CTAs fetch at a time, against 1",
            lambda r, ctas=ctas: shared_gain(r, ctas),
        )
        for name, ctas in (("_two", 2), ("_four", 4), ("", 128))
    },
    "tma_shared_kept_two": Derivation(
        "stages of tiles loaded by TMA: what every other CTA has of neighbours' gain by the same B, median",
        lambda r: shared_kept(r, 2),
        2,
    ),
    "tma_shared_kept": Derivation("the same for every fourth and every eighth", lambda r: shared_kept(r, 4, 8), 2),
    "l2_queueing_cycles": Derivation(
        "TMA, boxes of 8 KiB, 1 to 3 in flight: a box of all SMs less one of one, by the used share's cube, median",
        lambda r: queueing(r, "L2", "l2_gb_per_s"),
        2,
    ),
    "dram_queueing_cycles": Derivation("the same from DRAM", lambda r: queueing(r, "DRAM", "dram_read_gb_per_s"), 2),
    "l2_fill_cost": Derivation(
        "stages of tiles loaded by TMA, from DRAM against L2: the difference times l2_gb_per_s by bytes, median",
        fill_cost,
        2,
    ),
    "tma_descriptor_latency": Derivation(
        "a TMA descriptor in global memory: acquired before each box against not, 1 SM", descriptor_latency
    ),
    "tma_ahead_bytes": Derivation(
        "loads from L2 beside copies by TMA, all SMs: what they wait longer, times the bandwidth of the copies",
        tma_ahead_bytes,
    ),
    "tma_store_latency": Derivation(
        f"TMA, a lone box stored, 4 and 16 KiB continued to none, less {TMA_ISSUE} cycles of issue", store_latency
    ),
    "tma_store_read_latency": Derivation("as tma_store_latency: .read made no difference", store_latency),
    "launch_graph_us": Derivation(
        "graph after graph: 8 launches beyond half the difference of 32 and 16, mean over kernels and grids", graph_gap
    ),
    "launch_map_us": Derivation(
        "once in a launch, warm: copies by descriptors against copies without, what is not inside, mean of four",
        launch_map,
    ),
    "launch_single_full_us": Derivation(
        "events around a lone graph behind a flush, 132 CTAs of 384 threads and 200 KB against 1 CTA",
        lambda r: single_graph(r, 384, ctas=132) - single_graph(r),
    ),
    "launch_single_gap_us": Derivation(
        "events around a lone graph behind a flush, 1 CTA that does nothing: half of 3 launches against 1",
        lambda r: (single_graph(r, launches=3) - single_graph(r)) / 2,
    ),
    "cta_interval_cycles": Derivation(
        f"wave of CTAs: beyond their work, {FRAME} cycles of the kernel's frame and {CTA_START} (assumed) of the start",
        lambda r: wave(r, 1) - CTA_START,
    ),
    "cta_fill_cycles": Derivation(
        "launch period in a graph: first to last start of 1,056 CTAs against 132, a seventh", cta_fill, 2
    ),
    "l2_ahead_bytes": Derivation(
        "burst: the largest copy that takes a tenth longer at most while all SMs pause and copy in turns", ahead, 6
    ),
    "dram_first_cycles": Derivation(
        "once in a launch, alone: load_one, the slowest of 132 CTAs behind a flush against none, beyond DRAM's latency",
        dram_first,
    ),
    "dram_flushed_cycles": Derivation(
        "tiles one after the other, the same for all: behind a flush against none, beyond DRAM's latency; mean of "
        "loads and of copies of 4 KiB by 1, 16, 132 and 264 CTAs",
        dram_flushed,
    ),
}


def derive(results: Results) -> dict[str, tuple[float, str]]:
    """Return each parameter's value and origin, except those that this file lacks."""
    out = {}
    for name, derivation in DERIVATIONS.items():
        try:
            value = float(f"{derivation.compute(results):.{derivation.digits}g}")
        except KeyError as missing:
            print(f"{name} stays as it is: {missing.args[0]}", file=sys.stderr)
            continue
        out[name] = (int(value) if value == int(value) else value, derivation.how)
    return out


def enter(table: str, parameters: dict[str, tuple[float, str]], results_name: str) -> str:
    """Return a device's table with these parameters measured; ValueError if one is unknown."""
    for name, (value, how) in parameters.items():
        pattern = rf"(\n  {name}:\n)    value: .*\n(    unit: .*\n)    source: .*\n    from: .*(\n)"
        source = json.dumps(f"benchmarks/microbenchmarks/{results_name}: {how}", ensure_ascii=False)
        new = rf"\g<1>    value: {value}\n\g<2>    source: measured\n    from: "
        table, count = re.subn(pattern, lambda match, new=new, source=source: match.expand(new) + source + "\n", table)
        if count != 1:
            raise ValueError(f"{name} stands {count} times in the table: once would be right")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--write", type=Path, metavar="TABLE")
    options = parser.parse_args()
    parameters = derive(Results.read(options.results))
    for name, (value, how) in parameters.items():
        print(f"{name:28} {value:>10}  {how}")
    if options.write:
        text = enter(options.write.read_text(), parameters, options.results.name)
        scratch = options.write.with_suffix(".tmp")
        scratch.write_text(text)
        scratch.replace(options.write)


if __name__ == "__main__":
    main()
