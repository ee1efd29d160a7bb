"""What copies move: a function's TMA descriptors and its buffers in shared memory, with the copies that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutesnake.stages.anatomy import host, shared
from cutesnake.stages.anatomy.code import Code
from cutesnake.stages.anatomy.pipelines import Pipeline
from cutesnake.stages.anatomy.roles import Role
from cutesnake.stages.anatomy.watch import Copy, Seen


def descriptors(code: Code, seen: Seen, found_roles: Sequence[Role]) -> list[dict[str, Any]]:
    """Descriptors with their uses, by tensor; one that no copy used has none."""
    known = host.descriptors_of(seen.launch)
    for (_, tensor), copy in (*seen.loads.items(), *seen.stores.items()):
        if tensor is not None and tensor not in known:  # made or changed while the kernel ran, or begins before memory
            known[tensor] = host.describe(seen.launch, tensor, copy.touched)
    out = []
    for tensor, words in known.items():
        uses = [
            _use(code, found_roles, copy, way)
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
        out.append({**words, "uses": list(merged.values())})
    return out


def _use(code: Code, found_roles: Sequence[Role], copy: Copy, way: str) -> dict[str, Any]:
    kind = "reduce" if code.kinds[copy.at] == "tma_reduce" else way
    warps = {warp for _, warp in copy.warps}
    return {
        "way": kind,
        "role": " and ".join(role.name for role in found_roles if warps & set(role.warps)),
        "copies": sum(copy.warps.values()),
        "multicast_to": copy.most_targets,
        "lines": code.sources([copy.at]),
    }


def shared_memory(
    launch: Mapping[str, Any], buffers: list[shared.Buffer], seen: Seen | None, found: Sequence[Pipeline] | None
) -> dict[str, Any]:
    size = seen.launch.dynamic_shared if seen else launch.get("dynamic_shared_bytes")
    named = [_buffer(buffer, seen, found or ()) for buffer in buffers]
    fits = bool(buffers) and size is not None and buffers[-1].end <= size
    return {
        "limit_bytes": shared.LIMIT,
        "dynamic_bytes": size,
        "buffers": named if fits else None,
        "padding_bytes": size - sum(b["bytes"] for b in named) if fits else None,
        "left_bytes": None if size is None else shared.LIMIT - size,
    }


def _buffer(buffer: shared.Buffer, seen: Seen | None, found: Sequence[Pipeline]) -> dict[str, Any]:
    """A buffer with what copies bring into it or take out of it, and the pipeline whose stages it holds."""
    inside = range(buffer.offset, buffer.end)
    tensors, barriers = set(), set()
    copies = [(seen.launch, copy) for table in (seen.loads, seen.stores) for copy in table.values()] if seen else []
    for launch, copy in copies:
        if any(offset in inside for offset in copy.offsets):
            tensors.add(host.tensor_name(launch, copy.tensor, copy.touched) or "bytes")
            barriers |= copy.barriers
    stages = next((p.stages for p in found if barriers & set(p.full.offsets)), None)
    name = buffer.name if buffer.field else f"tiles of {', '.join(sorted(tensors))}" if tensors else buffer.name
    return {
        "name": name,
        "offset": buffer.offset,
        "bytes": buffer.bytes,
        "stages": stages,
        "tensors": sorted(tensors),
        "named_by_source": buffer.field,
    }
