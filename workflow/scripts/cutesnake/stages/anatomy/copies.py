"""Describe TMA descriptors and shared-memory buffers, with the copies that use them."""

from collections.abc import Mapping, Sequence
from typing import Any

from cutesnake.model.records.compile import LaunchShape
from cutesnake.stages.anatomy import host, shared
from cutesnake.stages.anatomy.code import Code
from cutesnake.stages.anatomy.pipelines import Pipeline
from cutesnake.stages.anatomy.roles import Role
from cutesnake.stages.anatomy.watch import Copy, Seen
from ptxsim.descriptors import TensorMap


def descriptors(code: Code, seen: Seen, result_roles: Sequence[Role]) -> list[dict[str, Any]]:
    """Return descriptors with their uses; a descriptor without copies has none."""
    known = host.descriptors_of(seen.launch)
    copied: dict[TensorMap, Copy] = {}
    for (_, tensor), copy in (*seen.loads.items(), *seen.stores.items()):
        if tensor is not None:
            copied.setdefault(tensor, copy)
    # What a copy reaches names the tensor: a map may begin before its memory, in another's, or be made by the kernel.
    known |= {tensor: host.describe(seen.launch, tensor, copy.touched) for tensor, copy in copied.items()}
    out = []
    for tensor, text in known.items():
        uses = [
            _use(code, result_roles, copy, way)
            for way, table in (("load", seen.loads), ("store", seen.stores))
            for (_, used), copy in table.items()
            if used == tensor
        ]
        merged: dict[tuple[str, str], dict[str, Any]] = {}
        for use in uses:
            kept = merged.setdefault((use["way"], use["role"]), use)
            if kept is not use:
                kept["copies"] += use["copies"]
                kept["multicast_to"] = max(kept["multicast_to"], use["multicast_to"])
                kept["lines"] = sorted({*kept["lines"], *use["lines"]})
        out.append({**text, "uses": list(merged.values())})
    return out


def _use(code: Code, result_roles: Sequence[Role], copy: Copy, way: str) -> dict[str, Any]:
    kind = "reduce" if code.kinds[copy.at] == "tma_reduce" else way
    warps = {warp for _, warp in copy.warps}
    return {
        "way": kind,
        "role": " and ".join(role.name for role in result_roles if warps & set(role.warps)),
        "copies": sum(copy.warps.values()),
        "multicast_to": copy.most_targets,
        "lines": code.sources([copy.at]),
    }


def shared_memory(
    launch: LaunchShape, buffers: list[shared.Buffer], seen: Seen | None, result: Sequence[Pipeline] | None
) -> dict[str, Any]:
    """Return the map of shared memory for a record."""
    size = seen.launch.dynamic_shared if seen else launch.dynamic_shared_bytes
    named = [_buffer(buffer, seen, result or ()) for buffer in buffers]
    fits = bool(buffers) and size is not None and buffers[-1].end <= size
    return {
        "limit_bytes": shared.LIMIT,
        "dynamic_bytes": size,
        "buffers": named if fits else None,
        "padding_bytes": size - sum(b["bytes"] for b in named) if fits else None,
        "left_bytes": None if size is None else shared.LIMIT - size,
    }


def _buffer(buffer: shared.Buffer, seen: Seen | None, result: Sequence[Pipeline]) -> dict[str, Any]:
    """Return a buffer with the tensors of its copies and the stages of its pipeline."""
    tensors, landed = _landed(buffer, seen) if seen else (set(), {})
    inside = range(buffer.offset, buffer.end)
    sent = seen is not None and any(offset in inside for offset in seen.sent)
    pipeline = next((p for p in result if landed.keys() & set(p.full.offsets)), None)
    stage_bytes = stages = None
    if pipeline:
        full = set(pipeline.full.offsets)
        tiles = {_covered(sizes) for barrier, sizes in landed.items() if barrier in full}
        stages = pipeline.stages
        if len(tiles) == 1 and not sent:  # else stages differ, or other CTAs write there as well
            stage_bytes = tiles.pop() * len(full) // stages
            if stage_bytes * stages > buffer.bytes:  # not every stage of the pipeline brings a part here
                stages = len(landed.keys() & full) * stages // len(full)
    return {
        "name": buffer.name if buffer.field else _use_of(buffer, seen, tensors, result) or buffer.name,
        "offset": buffer.offset,
        "bytes": buffer.bytes,
        "stages": stages,
        "stage_bytes": stage_bytes,
        "tensors": sorted(tensors),
        "named_by_source": buffer.field,
    }


def _covered(sizes: Mapping[int, int]) -> int:
    """Return how many bytes overlapping pieces (offset -> size) cover."""
    total = end = 0
    for offset, size in sorted(sizes.items()):
        total += max(0, offset + size - max(offset, end))
        end = max(end, offset + size)
    return total


def _use_of(buffer: shared.Buffer, seen: Seen | None, tensors: set[str], result: Sequence[Pipeline]) -> str | None:
    """Return the use of a buffer that the source does not name."""
    inside = range(buffer.offset, buffer.end)
    if seen is None or tensors:
        return f"tiles of {', '.join(sorted(tensors))}" if tensors else None
    if any(offset in inside for offset in seen.bars):
        names = [p.name for p in result if any(offset in inside for offset in p.full.offsets)]
        return f"mbarriers of {'; '.join(names)}" if names else "mbarriers"
    if any(offset in inside for product in seen.products.values() for offset in product.operands):
        return "operands that warps write"
    for access in seen.shared.values():
        if any(offset in inside for offset in access.offsets):
            return "address of tensor memory" if buffer.bytes == 4 else "values that warps exchange"
    return "not used in this run"


def _landed(buffer: shared.Buffer, seen: Seen) -> tuple[set[str], dict[int, dict[int, int]]]:
    """Return tensors of a buffer's copies, and mbarrier -> shared offset -> bytes."""
    inside = range(buffer.offset, buffer.end)
    tensors: set[str] = set()
    landed: dict[int, dict[int, int]] = {}
    for copy in (*seen.loads.values(), *seen.stores.values()):
        if any(offset in inside for offset in copy.offsets):
            tensors.add(host.tensor_name(seen.launch, copy.tensor, copy.touched) or "bytes")
        size = copy.tensor.box_bytes if copy.tensor else copy.size
        for barrier, offsets in copy.barriers.items():
            for offset in filter(inside.__contains__, offsets):
                ranges = landed.setdefault(barrier, {})
                ranges[offset] = max(size, ranges.get(offset, 0))
    return tensors, landed
