"""Launches in a stream: gaps between dependent grids, and early starts."""

import math
from collections.abc import Sequence

from .device import DeviceModel
from .launch_time import Timed
from .memory_system import Cache

_BY_DESCRIPTOR = ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")


def times(
    calls: Sequence[Sequence[Timed]], device: DeviceModel, clock_mhz: float, cache: Cache = "warm"
) -> list[tuple[float, float]]:
    """Return (start, end) in µs of each launch of back-to-back calls, from the first start.

    Gaps are longer among the first launches of a graph; a cold call is a graph by itself.
    """
    f, out = device.constants, list[tuple[float, float]]()
    gap = f.launch_single_gap_us if cache == "cold" else f.launch_gap_us
    before: Timed | None = None
    for timed in [timed for call in calls for timed in call]:
        if before is None:
            start, end = 0.0, timed.cycles / clock_mhz
        elif not timed.early:
            start = out[-1][1] + gap + descriptor_us(timed, device) + fill_us(timed, device)
            end = start + timed.cycles / clock_mhz
        else:
            start, end = _early(timed, before, out[-1], device, clock_mhz)
        out.append((start, end))
        before = timed
    return out


def _early(
    timed: Timed, before: Timed, last: tuple[float, float], device: DeviceModel, clock_mhz: float
) -> tuple[float, float]:
    """Return (start, end) of an early launch, by trigger and SM space."""
    gap = device.constants.launch_early_us + descriptor_us(timed, device) + fill_us(timed, device)
    start = last[0] + before.triggered / clock_mhz
    if not _can_overlap(timed, before, device):
        start = last[1] + gap
    if timed.awaited is None:
        return start, max(start + timed.cycles / clock_mhz, last[1])
    resumed = max(start + timed.awaited / clock_mhz, last[1] + gap)
    return start, resumed + (timed.cycles - timed.awaited) / clock_mhz


def fill_us(timed: Timed, device: DeviceModel) -> float:
    """Return the extra launch latency (µs) of a grid with many CTAs."""
    return device.constants.launch_full_us * _fill_share(timed, device)


def _fill_share(timed: Timed, device: DeviceModel) -> float:
    """Return log(active SMs) / log(SMs), at most 1: few CTAs count nearly half."""
    return min(math.log(max(timed.placement.active_sms, 1)) / math.log(max(device.constants.sm_count, 2)), 1.0)


def descriptor_us(timed: Timed, device: DeviceModel) -> float:
    """Return the extra launch latency (µs) with TMA descriptors."""
    described = any(ins.op.startswith(_BY_DESCRIPTOR) for ins in timed.launch.kernel.instructions)
    return device.constants.launch_map_us if described else 0.0


def _can_overlap(timed: Timed, before: Timed, device: DeviceModel) -> bool:
    """Return whether two grids fit on one SM, or on disjoint SMs."""
    f = device.constants
    if before.placement.active_sms + timed.placement.active_sms <= f.sm_count:
        return True
    shared = timed.placement.shared_bytes + before.placement.shared_bytes
    threads = 32 * (timed.launch.warps + before.launch.warps)
    return shared <= f.shared_bytes_per_sm and threads <= f.threads_per_sm


def call_us(
    call: Sequence[Timed],
    device: DeviceModel,
    clock_mhz: float,
    cache: Cache,
    calls_per_graph: int | None = None,
    single_launch_us: float | None = None,
) -> float:
    """Return the µs of a warm call among many, or a cold single one.

    `calls_per_graph` is the number of calls in each of the graphs that follow each other; None: all in one.
    `single_launch_us` is the time of an empty kernel's single launch on the host; None: the device file's value.
    """
    if cache == "cold":
        f, first = device.constants, call[0]
        single = f.launch_single_us if single_launch_us is None else single_launch_us
        start = single + f.launch_single_full_us * _fill_share(first, device) + descriptor_us(first, device)
        return times([call], device, clock_mhz, cache)[-1][1] + start
    ends = times([call, call, call], device, clock_mhz)
    n = len(call)
    between = device.constants.launch_graph_us / calls_per_graph if calls_per_graph else 0.0
    return ends[-1][1] - ends[-1 - n][1] + between
