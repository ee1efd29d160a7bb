"""The anatomy records of a kernel's builds: what is in the artifacts, and what one small simulated run shows."""

from __future__ import annotations

import functools
import math
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutesnake import record
from cutesnake.anatomy import host, pipelines, roles, shared
from cutesnake.anatomy.code import Code, number
from cutesnake.anatomy.numbers import spans
from cutesnake.anatomy.patterns import Function, find_patterns
from cutesnake.anatomy.pipelines import Group, Pipeline
from cutesnake.anatomy.roles import Role
from cutesnake.anatomy.watch import Copy, Seen, watch
from cutesnake.anatomy.words import product_words
from cutesnake.dsls import DSLS
from cutesnake.fault import describe as plain
from cutesnake.inspect.cubin import read_cubin
from cutesnake.inspect.ptx import Entry, read_ptx
from cutesnake.simulate.simulation import time_limit
from ptxsim import Module
from ptxsim.syntax import Kernel

FEW_PROCESSORS = 4  # so that a small problem gives each CTA several tiles
LIMIT_SECONDS = 120.0  # of one watched run; those of the catalogue take seconds
IDENTITY = ("operator", "kernel", "dsl", "source", "target", "variant")
_SWIZZLE = re.compile(r"smem, align<\d+>, (S<([123]),\d,\d>)")


def anatomy_of(
    folder: Path,
    workloads: Sequence[Mapping[str, Any]],
    processors: int | None,
    most_clusters: int | None = None,
    instead: str | None = None,
) -> dict[str, Any]:
    """The anatomy record of the build in `folder`.

    workloads: parameters of small problems, the most telling first; the first that the build takes is run.
    processors: multiprocessors of the card that the simulator stands for; None where it stands for none.
    most_clusters: of each launch, where not all are run, since the workload is large.
    instead: key of a build of the same kernel that is watched, where this one is not.
    Raises RecordError for a damaged build.json.
    """
    build = record.read("compile", folder / "build.json")
    body: dict[str, Any] = {"functions": [], "watched": None, "not_watched": None, "grids": []}
    if build["status"] == "failed":
        body["not_watched"] = "the build failed"
    if build["status"] == "ok":
        body |= _body(folder, build, workloads, processors, most_clusters, instead)
    return {
        "stage": "anatomy",
        "status": build["status"],
        "reason": build["reason"],
        "provenance": {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
        },
        **{key: build[key] for key in IDENTITY},
        **body,
    }


def _body(
    folder: Path,
    build: Mapping[str, Any],
    workloads: Sequence[Mapping[str, Any]],
    processors: int | None,
    most_clusters: int | None,
    instead: str | None,
) -> dict[str, Any]:
    """What a build that compiled has, from its artifacts and, where the simulator takes it, from a run."""
    modules = {path.stem: _module(path.read_bytes(), path.name) for path in sorted(folder.glob("*.ptx"))}
    never = DSLS[build["dsl"]].not_simulated
    why = never or "no workload that this build takes is small enough to be run"
    if instead:
        why += f": its sizes are baked in; {instead}, of the same kernel, was watched"
    if not modules:
        return {"not_watched": never or "there is no PTX in this build"}
    if processors is None:
        why = f"the simulator stands for no card of {build['target']}"
    if processors is None or never:
        workloads = ()
    told = processors if most_clusters and processors else FEW_PROCESSORS
    watched, seen = None, []
    for parameters in workloads:
        asked = host.Asked(folder, build["operator"], build["kernel"], parameters, told)
        try:
            with time_limit(LIMIT_SECONDS):
                seen = watch(host.launches_of(asked, modules), most_clusters=most_clusters)
        except Exception as error:  # whatever a kernel's own `bind` raises is its fault, and only its own
            why = plain(error) or type(error).__name__
            continue
        watched, why = {"parameters": dict(parameters), "processors": told, "schedule": "random"}, ""
        if most_clusters is not None:
            watched["most_clusters"] = most_clusters
        break
    functions = _functions(folder, build, modules, seen)
    grids = _grids(folder, build, modules, workloads, processors) if processors else []
    return {"functions": functions, "watched": watched, "not_watched": why or None, "grids": grids}


@functools.cache
def _module(content: bytes, name: str) -> Module:
    """PTX, read once however many builds hold the same: TileGym's splits share their kernels."""
    return Module.from_text(content.decode(), name)


def _functions(
    folder: Path, build: Mapping[str, Any], modules: Mapping[str, Module], seen: Sequence[Seen]
) -> list[dict[str, Any]]:
    """The functions of a build: what ran before what did not, products first, then the longest."""
    ir = (folder / "kernel.mlir").read_text() if (folder / "kernel.mlir").is_file() else ""
    budgets = shared.budgets(ir) if ir else {}
    found: list[tuple[tuple[bool, bool, int], dict[str, Any]]] = []
    for stem, module in modules.items():
        entries = read_ptx((folder / f"{stem}.ptx").read_text())
        for kernel in module.kernels.values():
            note = next((one for one in seen if one.launch.kernel.name == kernel.name), None)
            launch, buffers = build["launch"].get(kernel.name, {}), budgets.get(kernel.name, [])
            text = _text_of(ir, kernel.name) if ir else ""
            order = (note is None and bool(seen), *_weight(kernel))
            found.append((order, _function(folder, kernel, entries.get(kernel.name), launch, note, buffers, text)))
    return [function for _, function in sorted(found, key=lambda one: one[0])]


def _grids(
    folder: Path,
    build: Mapping[str, Any],
    modules: Mapping[str, Module],
    workloads: Sequence[Mapping[str, Any]],
    processors: int,
) -> list[dict[str, Any]]:
    """Grids that the host code asks for, per workload, told of all the multiprocessors of its card."""
    found = []
    for parameters in workloads:
        asked = host.Asked(folder, build["operator"], build["kernel"], parameters, processors)
        try:
            launches = host.launches_of(asked, modules)
        except Exception:  # as above, where it is told
            continue
        grids = {launch.kernel.name: list(launch.grid) for launch in launches}
        found.append({"parameters": dict(parameters), "processors": processors, "grids": grids})
    return found


def _weight(kernel: Kernel) -> tuple[bool, int]:
    """What sorts the functions of a build: those with matrix products first, then the longest."""
    products = any(ins.base in ("tcgen05", "wgmma", "mma") for ins in kernel.instructions)
    return not products, -len(kernel.instructions)


def _text_of(ir: str, symbol: str) -> str:
    """The part of the IR that is one kernel's, with the aliases of types that it names spelled out."""
    start = ir.find(f"cuda.kernel @{symbol}(")
    end = ir.find("cuda.kernel @", start + 1)
    text = ir[start : end if end > 0 else len(ir)]
    aliases = dict(re.findall(r"^(!memref_smem\w*) = (.*)$", ir, re.MULTILINE))
    used = set(re.findall(r"!memref_smem\w*", text))
    return "\n".join(aliases.get(name, "") for name in sorted(used)) + text


def _function(
    folder: Path,
    kernel: Kernel,
    entry: Entry | None,
    launch: Mapping[str, Any],
    seen: Seen | None,
    buffers: list[shared.Buffer],
    ir: str,
) -> dict[str, Any]:
    code = Code(kernel)
    found_roles = roles.find_roles(code, seen) if seen else None
    tensors = _tensors_by_barrier(seen) if seen else {}
    groups = pipelines.find_groups(code, seen, found_roles, buffers, tensors) if seen and found_roles else None
    found = pipelines.find_pipelines(groups) if groups is not None else None
    descriptors = _descriptors(code, seen, found_roles) if seen and found_roles else None
    size = seen.launch.cluster if seen else launch.get("cluster")
    cluster = math.prod(size) if size else None
    facts = Function(
        code,
        cluster,
        seen,
        found_roles,
        groups,
        found,
        _swizzles(descriptors, ir),
        entry.pipeline_stages if entry else None,
    )
    return {
        "symbol": kernel.name,
        "host": _host(launch, seen),
        "descriptors": descriptors,
        "shared": _shared(launch, buffers, seen, found),
        "tensor_memory": _tensor_memory(entry, seen),
        "registers": _registers(folder, code),
        "roles": found_roles and [_role(code, role) for role in found_roles],
        "barriers": None if groups is None else [group_as_data(code, group) for group in groups],
        "pipelines": None if found is None else [_pipeline(one) for one in found],
        "named_barriers": _named(code, seen, found_roles),
        "products": _products(code, seen, found_roles),
        "counts": _counts(code),
        "patterns": {
            name: {"found": p.found, "evidence": p.evidence, "lines": p.lines}
            for name, p in find_patterns(facts).items()
        },
    }


def _tensors_by_barrier(seen: Seen) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for copy in seen.loads.values():
        name = host.tensor_name(seen.launch, copy.tensor)
        for offset in copy.barriers:
            found.setdefault(offset, set()).update({name} if name else ())
    return found


def _swizzles(descriptors: list[dict[str, Any]] | None, ir: str) -> list[str]:
    found = [f"TMA boxes of {d['tensor']}: {d['swizzle']}" for d in descriptors or () if d["swizzle"] != "none"]
    layouts = sorted({text for text, _ in _SWIZZLE.findall(ir)})
    return list(dict.fromkeys(found)) + ([f"shared-memory layouts {', '.join(layouts)}"] if layouts else [])


def _host(launch: Mapping[str, Any], seen: Seen | None) -> dict[str, Any]:
    one = seen.launch if seen else None
    return {
        "grid": list(one.grid) if one else None,
        "block": list(one.block) if one else launch.get("block"),
        "cluster": list(one.cluster) if one else launch.get("cluster"),
        "dynamic_shared_bytes": one.dynamic_shared if one else launch.get("dynamic_shared_bytes"),
        "attributes": host.attributes_of(one) if one else None,
    }


def _descriptors(code: Code, seen: Seen, found_roles: Sequence[Role]) -> list[dict[str, Any]]:
    """Descriptors with their uses, by tensor; one that no copy used has none."""
    known = host.descriptors_of(seen.launch)
    for _, tensor in (*seen.loads, *seen.stores):
        if tensor is not None and tensor not in known:  # made or changed while the kernel ran
            known[tensor] = host.describe(seen.launch, tensor)
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


def _shared(
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
            tensors.add(host.tensor_name(launch, copy.tensor) or "bytes")
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
        per_thread = next(
            (k.registers_per_thread for k in read_cubin(cubin).kernels if k.symbol == code.kernel.name), per_thread
        )
    shares = [number(code.instructions[at].operands[0]) for at in code.places("setmaxnreg")]
    kept = ("reqntid", "maxntid", "minnctapersm", "maxnreg", "reqnctapercluster")
    return {
        "per_thread": per_thread,
        "setmaxnreg": sorted({share for share in shares if share is not None}),
        "directives": {key: list(value) for key, value in code.kernel.directives.items() if key in kept},
    }


def _role(code: Code, role: Role) -> dict[str, Any]:
    kinds = {"load": ("tma_load", "bulk_load", "cp_async", "global_load"), "multiply": ("product",)}
    kinds |= {"softmax": ("exponential",), "correct": ("tmem_store",), "schedule": ("launch_control",)}
    kinds |= {"epilogue": ("shared_store",), "store": roles.STORES, "convert": ("shared_load",)}
    return {
        "name": role.name,
        "warps": list(role.warps),
        "tasks": list(role.tasks),
        "some": {task: list(warps) for task, warps in role.some.items()},
        "registers": list(role.registers),
        "ranks": None if role.ranks is None else list(role.ranks),
        "instructions": len(role.ran),
        "ran": _ran(code, role),
        "lines": {task: code.sources(role.does(code, *kinds[task]))[:8] for task in role.tasks},
    }


def _ran(code: Code, role: Role) -> dict[str, str]:
    """File -> the source lines whose code the role ran, as «3-5, 9»."""
    files: dict[str, set[int]] = {}
    for place in code.sources(role.ran):
        file, _, line = place.rpartition(":")
        files.setdefault(file, set()).add(int(line))
    return {file: spans(sorted(lines)) for file, lines in files.items()}


def group_as_data(code: Code, group: Group) -> dict[str, Any]:
    """An entry of a record's `barriers`; who arrives and waits stands in alphabetical order of kinds and roles."""
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
        "full_offset": one.full.offsets[0],
        "empty_offset": one.empty.offsets[0],
        "producers": sorted(one.full.arrivers),
        "consumers": sorted(one.full.waits),
    }


def _named(code: Code, seen: Seen | None, found_roles: Sequence[Role] | None) -> list[dict[str, Any]] | None:
    if seen is None or found_roles is None:
        return None
    return [
        {
            "number": barrier,
            "threads": sorted(note["threads"]),
            "roles": [r.name for r in found_roles if {warp for _, warp in note["warps"]} & set(r.warps)],
            "lines": code.sources(note["at"])[:8],
        }
        for barrier, note in sorted(seen.named.items())
    ]


def _products(code: Code, seen: Seen | None, found_roles: Sequence[Role] | None) -> list[dict[str, Any]] | None:
    """Matrix products by form: who issues them, from which lines, how often in the watched run."""
    if seen is None or found_roles is None:
        return None
    merged: dict[str, dict[str, Any]] = {}
    for one in seen.products.values():
        form = {key: value for key, value in one.form.items() if key != "descriptor_bits"}
        kept = merged.setdefault(
            str(form), {**form, "descriptor_bits": one.form["descriptor_bits"], "issued": 0, "lines": [], "roles": []}
        )
        kept["issued"] += sum(one.warps.values())
        kept["lines"] = (
            code.sources([one.at]) if not kept["lines"] else sorted({*kept["lines"], *code.sources([one.at])})
        )
        warps = {warp for _, warp in one.warps}
        names = {role.name for role in found_roles if warps & set(role.warps)}
        kept["roles"] = sorted({*kept["roles"], *names})
    simple = [at for at in code.places("product") if code.instructions[at].base == "mma"]
    if simple:
        shapes = sorted({p for at in simple for p in code.instructions[at].parts if re.fullmatch(r"m\d+n\d+k\d+", p)})
        for shape in shapes:
            places = [at for at in simple if shape in code.instructions[at].parts]
            types = list(code.instructions[places[0]].parts[-4:])
            m, n, k = map(int, re.findall(r"\d+", shape))
            merged[shape] = {
                **{"instruction": "mma.sync", "shape": [m, n, k], "kind": None, "cta_group": None},
                "types": {"a": types[1], "b": types[2], "d": types[0]},
                **{"a_in": "registers", "b_in": "registers", "d_in": "registers", "major": {"a": "k", "b": "k"}},
                **{"scale_factors": 0, "descriptor_bits": None, "issued": None, "lines": code.sources(places)},
                "roles": [role.name for role in found_roles if role.does(code, "product")],
            }
    return [{**product, "words": product_words(product)} for product in merged.values()]


def _counts(code: Code) -> dict[str, int]:
    """Instructions of the code by what they do, each once however often it runs."""
    kinds = [kind for kind in code.kinds if kind]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
