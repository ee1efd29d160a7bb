"""The inspect record of a build: build.json, cubin, SASS and PTX, put together."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model import provenance, record
from cutesnake.model.records.compile import Compile, LaunchShape
from cutesnake.planning.devices import Devices, capability_of, read_devices
from cutesnake.stages.inspect.occupancy import Usage, occupancy
from cutesnake.stages.inspect.ptx import Entry, read_ptx
from cutesnake.stages.inspect.sass import Mix, read_sass

if TYPE_CHECKING:
    from cutesnake.stages.inspect.cubin import Kernel


@dataclass(frozen=True)
class Artifacts:
    """What there is about one kernel; None where the build left no such file."""

    kernel: Kernel
    mix: Mix | None
    entry: Entry | None
    launch: LaunchShape


class Notes(dict[str, str]):
    """field -> why it is null, or how it was arrived at."""

    def unknown(self, field: str, why: str) -> None:
        """Note why a field is unknown."""
        self[field] = f"not known: {why}"


def inspect_build(build_json: Path | str, devices: Path | str, output: Path | str) -> None:
    """Write the inspect record of a build; a failed build gives a failed record.

    Raises RecordError for a damaged build.json or artifact, DeviceError for a damaged devices.yaml.
    """
    build = record.read("compile", build_json)
    known = read_devices(devices)
    failed = build.status == "failed"
    functions, notes = ([], []) if failed else _functions(Path(build_json).parent, build, known)
    entry = {
        "stage": "inspect",
        "status": build.status,
        "reason": build.reason,
        "provenance": provenance.built(),
        **build.identity,
        "functions": functions,
        "notes": notes,
    }
    record.write("inspect", output, entry)


def _functions(folder: Path, build: Compile, devices: Devices) -> tuple[list[dict[str, Any]], list[str]]:
    result = [
        artifacts
        for name in sorted(build.files)
        if name.endswith(".cubin")
        for artifacts in _read_cubin(folder, Path(name).stem, build)
    ]
    if not result:
        return [], ["the build holds no cubin: there is nothing to inspect"]
    order = {symbol: place for place, symbol in enumerate(build.symbols)}
    result.sort(key=lambda one: (order.get(one.kernel.symbol, len(order)), -one.kernel.code_bytes))
    functions, remarks = [], []
    for place, artifacts in enumerate(result):
        notes = Notes()
        functions.append(_function(artifacts, build.target, devices, notes))
        label = f"function {place + 1}, " if len(result) > 1 else ""
        remarks += [f"{label}{field}: {text}" for field, text in notes.items()]
    return functions, remarks


def _read_cubin(folder: Path, stem: str, build: Compile) -> list[Artifacts]:
    """Return the kernels of `<stem>.cubin`, with their SASS and PTX."""
    from cutesnake.stages.inspect.cubin import read_cubin  # a machine without compilers need not have pyelftools

    cubin = read_cubin(_intact(folder, f"{stem}.cubin", build))
    texts = {}
    for suffix in ("sass", "ptx"):
        name = f"{stem}.{suffix}"
        if name in build.files:
            texts[suffix] = _intact(folder, name, build).read_text(encoding="utf-8", errors="replace")
    mixes = read_sass(texts["sass"]) if "sass" in texts else {}
    ptx = texts.get("ptx") or cubin.ptx
    entries = read_ptx(ptx) if ptx else {}
    unknown = LaunchShape(None, None, None)
    return [
        Artifacts(
            kernel, mixes.get(kernel.symbol), entries.get(kernel.symbol), build.launch.get(kernel.symbol, unknown)
        )
        for kernel in cubin.kernels
    ]


def _intact(folder: Path, name: str, build: Compile) -> Path:
    """Return an artifact's path; RecordError if it differs from build.json."""
    path = folder / name
    if not path.is_file():
        raise record.RecordError(f"{path}: missing, though build.json lists it; delete its folder and run again")
    if hashlib.sha256(path.read_bytes()).hexdigest() != build.files[name]:
        raise record.RecordError(
            f"{path}: cut short or changed since it was built (its sha256 is not that of build.json); "
            "delete its folder and run again"
        )
    return path


def _function(result: Artifacts, target: str, devices: Devices, notes: Notes) -> dict[str, Any]:
    from cutesnake.stages.inspect.cubin import RESERVED_SHARED_BYTES

    kernel, mix, entry = result.kernel, result.mix, result.entry
    if mix is None:
        notes.unknown("instructions", "the build holds no SASS of this function")
        notes.unknown("setmaxnreg", "the build holds no SASS of this function")
    figures = {
        "symbol": kernel.symbol,
        "code_bytes": kernel.code_bytes,
        "registers_per_thread": kernel.registers_per_thread,
        "spill_bytes": _spill_bytes(kernel, entry, notes),
        "stack_bytes": kernel.stack_bytes,
        "static_shared_bytes": kernel.static_shared_bytes,
        "dynamic_shared_bytes": _dynamic_shared(result, notes),
        "reserved_shared_bytes": RESERVED_SHARED_BYTES,
        "threads_per_block": _threads(result, notes),
        "cluster_size": _cluster(result, notes),
        "tensor_memory_columns": _from_ptx("tensor_memory_columns", entry, notes),
        "setmaxnreg": None if mix is None else list(mix.setmaxnreg),
        "named_barriers": kernel.named_barriers,
        "mbarriers": kernel.mbarriers,
        "instructions": None if mix is None else mix.classes,
        "pipeline_stages": _from_ptx("pipeline_stages", entry, notes),
    }
    figures["occupancy"] = _occupancy(figures, kernel, target, devices, notes)
    return {**figures, "serialized_wgmma": None if mix is None else mix.serialized}


def _spill_bytes(kernel: Kernel, entry: Entry | None, notes: Notes) -> int | None:
    """Return bytes of spilled registers: the stack less arrays that the PTX declares."""
    if kernel.stack_bytes == 0:
        return 0
    if entry is None or entry.calls:
        what = "there is no PTX to tell spills from local arrays" if entry is None else "called functions share it"
        notes.unknown("spill_bytes", f"the stack holds {kernel.stack_bytes} bytes per thread, but {what}")
        return None
    return max(0, kernel.stack_bytes - entry.local_array_bytes)


def _dynamic_shared(result: Artifacts, notes: Notes) -> int | None:
    if (passed := result.launch.dynamic_shared_bytes) is not None:
        return passed
    if result.entry is not None and not result.entry.uses_dynamic_shared:
        return 0
    notes.unknown("dynamic_shared_bytes", "it is given at launch")
    return None


def _threads(result: Artifacts, notes: Notes) -> int | None:
    if result.launch.block:
        return math.prod(result.launch.block)
    if result.kernel.required_threads is not None:
        return result.kernel.required_threads
    most = "" if result.kernel.max_threads is None else f", at most {result.kernel.max_threads}"
    notes.unknown("threads_per_block", f"it is given at launch{most}")
    return None


def _cluster(result: Artifacts, notes: Notes) -> int | None:
    if result.launch.cluster:
        return math.prod(result.launch.cluster)
    if result.kernel.blocks_per_cluster is not None:
        return result.kernel.blocks_per_cluster
    notes.unknown("cluster_size", "it is given at launch")
    return None


def _from_ptx(field: str, entry: Entry | None, notes: Notes) -> Any:
    if entry is None:
        notes.unknown(field, "the build holds no PTX of this function")
        return None
    if (why := entry.notes.get(field)) is not None:
        notes.unknown(field, why)
    value = getattr(entry, field)
    return list(value) if isinstance(value, tuple) else value


def _occupancy(
    figures: Mapping[str, Any], kernel: Kernel, target: str, devices: Devices, notes: Notes
) -> dict[str, Any] | None:
    """Return theoretical occupancy on `target`, with its assumptions."""
    capability = capability_of(target)
    if capability not in devices.limits:
        notes.unknown("occupancy", f"devices.yaml has no compute capability {capability} ({target})")
        return None
    assumed = []
    threads = figures["threads_per_block"]
    if threads is None and kernel.max_threads is not None:
        threads = kernel.max_threads
        assumed.append(f"the most threads that the kernel allows, {threads}")
    if threads is None:
        notes.unknown("occupancy", "the threads per block are given at launch")
        return None
    if figures["dynamic_shared_bytes"] is None:
        assumed.append("no dynamic shared memory")
    if figures["tensor_memory_columns"] is None:
        assumed.append("no tensor memory")
    usage = Usage(
        threads=threads,
        registers_per_thread=figures["registers_per_thread"],
        shared_bytes=figures["static_shared_bytes"] + (figures["dynamic_shared_bytes"] or 0),
        named_barriers=figures["named_barriers"],
        tensor_memory_columns=figures["tensor_memory_columns"] or 0,
    )
    if assumed:
        notes["occupancy"] = f"assumes {' and '.join(assumed)}: an upper bound"
    return {
        **asdict(occupancy(usage, devices.limits[capability])),
        "compute_capability": capability,
        "devices": [device.name for device in devices.of_capability(capability)],
        "assumed": assumed,
    }
