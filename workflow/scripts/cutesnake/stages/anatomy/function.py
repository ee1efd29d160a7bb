"""Describe one device function from its code, its build and the watched run."""

import functools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutesnake.model.records.compile import LaunchShape
from cutesnake.stages.anatomy import copies, host, pipelines, roles, shared
from cutesnake.stages.anatomy.checks import contradictions
from cutesnake.stages.anatomy.code import Code, number
from cutesnake.stages.anatomy.numbers import spans
from cutesnake.stages.anatomy.patterns import Function, find_patterns
from cutesnake.stages.anatomy.pipelines import Group, Pipeline
from cutesnake.stages.anatomy.products import products
from cutesnake.stages.anatomy.roles import Role
from cutesnake.stages.anatomy.watch import Seen
from cutesnake.stages.inspect.cubin import read_cubin
from cutesnake.stages.inspect.ptx import Entry
from ptxsim import Kernel

_SWIZZLE = re.compile(r"smem, align<\d+>, (S<([123]),\d,\d>)")


def function_of(
    folder: Path,
    kernel: Kernel,
    entry: Entry | None,
    launch: LaunchShape,
    seen: Seen | None,
    buffers: list[shared.Buffer],
    ir: str,
) -> dict[str, Any]:
    """Return an entry of `functions`; without a run, unknown fields are None.

    launch: what build.json says that is fixed at compile time. buffers: its shared memory, read off the IR `ir`.
    """
    code = Code(kernel)
    result_roles = roles.find_roles(code, seen) if seen else None
    tensors = _tensors_by_barrier(seen) if seen else {}
    groups = pipelines.find_groups(code, seen, result_roles, buffers, tensors) if seen and result_roles else None
    result = pipelines.find_pipelines(groups) if groups is not None else None
    descriptors = copies.descriptors(code, seen, result_roles) if seen and result_roles else None
    size = seen.launch.cluster if seen else launch.cluster
    cluster = math.prod(size) if size else None
    stages = entry.pipeline_stages if entry else None
    facts = Function(code, cluster, seen, result_roles, groups, result, _swizzles(descriptors, ir), stages)
    body: dict[str, Any] = {
        "symbol": kernel.name,
        "host": _host(launch, seen),
        "descriptors": descriptors,
        "shared": copies.shared_memory(launch, buffers, seen, result),
        "tensor_memory": _tensor_memory(entry, seen),
        "registers": _registers(folder, code),
        "roles": result_roles and [_role(code, role) for role in result_roles],
        "barriers": None if groups is None else [group_as_data(code, group) for group in groups],
        "pipelines": None if result is None else [_pipeline(one) for one in result],
        "named_barriers": _named(code, seen, result_roles),
        "products": products(code, seen, result_roles),
        "counts": _counts(code),
        "patterns": {
            name: {"found": p.present, "evidence": p.evidence, "lines": p.lines}
            for name, p in find_patterns(facts).items()
        },
    }
    return {**body, "contradictions": contradictions(body)}


def _tensors_by_barrier(seen: Seen) -> dict[int, set[str]]:
    result: dict[int, set[str]] = {}
    for copy in seen.loads.values():
        name = host.tensor_name(seen.launch, copy.tensor, copy.touched)
        for offset in copy.barriers:
            result.setdefault(offset, set()).update({name} if name else ())
    return result


def _swizzles(descriptors: list[dict[str, Any]] | None, ir: str) -> list[str]:
    result = [f"TMA boxes of {d['tensor']}: {d['swizzle']}" for d in descriptors or () if d["swizzle"] != "none"]
    layouts = sorted({text for text, _ in _SWIZZLE.findall(ir)})
    return list(dict.fromkeys(result)) + ([f"shared-memory layouts {', '.join(layouts)}"] if layouts else [])


def _host(launch: LaunchShape, seen: Seen | None) -> dict[str, Any]:
    one = seen.launch if seen else None
    return {
        "grid": list(one.grid) if one else None,
        "block": list(one.block) if one else launch.block,
        "cluster": list(one.cluster) if one else launch.cluster,
        "dynamic_shared_bytes": one.dynamic_shared if one else launch.dynamic_shared_bytes,
        "attributes": host.attributes_of(one) if one else None,
    }


def _tensor_memory(entry: Entry | None, seen: Seen | None) -> dict[str, Any]:
    products = seen.products.values() if seen else ()
    columns = sorted({column for one in products for column in one.columns})
    return {
        "columns": entry.tensor_memory_columns if entry else None,
        "accumulators_at": columns if seen else None,
        "note": entry.notes.get("tensor_memory_columns") if entry else None,
    }


def _registers(folder: Path, code: Code) -> dict[str, Any]:
    per_thread = None
    for cubin in folder.glob("*.cubin"):
        per_thread = _per_thread(cubin, cubin.stat().st_mtime_ns).get(code.kernel.name, per_thread)
    shares = [number(code.instructions[at].operands[0]) for at in code.places("setmaxnreg")]
    kept = ("reqntid", "maxntid", "minnctapersm", "maxnreg", "reqnctapercluster")
    return {
        "per_thread": per_thread,
        "setmaxnreg": sorted({share for share in shares if share is not None}),
        "directives": {key: list(value) for key, value in code.kernel.directives.items() if key in kept},
    }


@functools.lru_cache(maxsize=32)
def _per_thread(cubin: Path, _changed: int) -> dict[str, int]:
    """Return symbol -> registers per thread for the functions of a cubin."""
    return {kernel.symbol: kernel.registers_per_thread for kernel in reversed(read_cubin(cubin).kernels)}


_KINDS = {  # task -> the instructions whose lines a role's record names
    "load": ("tma_load", "bulk_load", "cp_async", "global_load"),
    "multiply": ("product",),
    "softmax": ("exponential",),
    "correct": ("tmem_store",),
    "accumulate": ("tmem_load",),
    "compute": ("shared_load", "shared_store"),
    "convert": ("shared_store", "tmem_store"),
    "epilogue": ("shared_store",),
    "store": roles.STORES,
    "schedule": ("launch_control", "shared_store"),
}


def _role(code: Code, role: Role) -> dict[str, Any]:
    return {
        "name": role.name,
        "warps": list(role.warps),
        "tasks": list(role.tasks),
        "some": {task: list(warps) for task, warps in role.some.items()},
        "registers": list(role.registers),
        "ranks": None if role.ranks is None else list(role.ranks),
        "instructions": len(role.ran),
        "ran": _ran(code, role),
        "lines": {task: code.sources(role.does(code, *_KINDS[task]))[:8] for task in role.tasks},
    }


def _ran(code: Code, role: Role) -> dict[str, str]:
    """Return file -> the source lines whose code the role ran, as "3-5, 9"."""
    files: dict[str, set[int]] = {}
    for place in code.sources(role.ran):
        file, _, line = place.rpartition(":")
        files.setdefault(file, set()).add(int(line))
    return {file: spans(sorted(lines)) for file, lines in files.items()}


def group_as_data(code: Code, group: Group) -> dict[str, Any]:
    """Return an entry of a record's `barriers`, in alphabetical order of kinds and roles."""
    phases = max(group.completed, 1)
    return {
        "name": group.name,
        "offset": group.offsets[0],
        "stages": len(group.offsets),
        "count": group.count,
        "phases_seen": group.completed,
        "never_used": group.unused,
        "from_other_cta": group.from_other_cta,
        "arrivals": [
            {
                "kind": kind,
                "role": role,
                "per_phase": round(sum(times.values()) / phases, 2),
                "lines": code.sources(at for at in times if at >= 0),
            }
            for (kind, role), times in sorted(group.arrivals.items())
        ],
        "waits": [{"role": role, "lines": code.sources(times)} for role, times in sorted(group.waits.items())],
    }


def _pipeline(one: Pipeline) -> dict[str, Any]:
    return {
        "name": one.name,
        "stages": one.stages,
        "fields": list(dict.fromkeys(group.name for group in (one.full, one.empty) if group.name)),
        "full_offsets": one.full.offsets,
        "empty_offsets": one.empty.offsets,
        "producers": sorted(one.full.arrivers),
        "consumers": sorted(one.full.waits),
    }


def _named(code: Code, seen: Seen | None, result_roles: Sequence[Role] | None) -> list[dict[str, Any]] | None:
    if seen is None or result_roles is None:
        return None
    return [
        {
            "number": barrier,
            "threads": sorted(note["threads"]),
            "roles": [r.name for r in result_roles if {warp for _, warp in note["warps"]} & set(r.warps)],
            "lines": code.sources(note["at"])[:8],
        }
        for barrier, note in sorted(seen.named.items())
    ]


def _counts(code: Code) -> dict[str, int]:
    """Count instructions of the code by kind; loops count once."""
    kinds = [kind for kind in code.kinds if kind]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
