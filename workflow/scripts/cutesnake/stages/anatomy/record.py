"""Make anatomy records from a build's artifacts and one small simulated run."""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cutesnake.model import provenance, record
from cutesnake.model.dsls import DSLS
from cutesnake.model.records.compile import Compile, LaunchShape
from cutesnake.runtime.errors import describe as plain
from cutesnake.runtime.machine_faults import MachineFaultError
from cutesnake.stages.anatomy import host, shared
from cutesnake.stages.anatomy.function import function_of
from cutesnake.stages.anatomy.watch import Seen, watch
from cutesnake.stages.inspect.ptx import read_ptx
from cutesnake.stages.simulate.simulation import time_limit
from cutesnake.stages.simulate.translation_cache import shared_translations
from ptxsim import Kernel, Module, Translations

FEW_PROCESSORS = 4  # so that a small problem gives each CTA several tiles
LIMIT_SECONDS = 120.0  # of processor time, of one watched run; runs of the catalogue take seconds


def anatomy_of(
    folder: Path,
    workloads: Sequence[Mapping[str, Any]],
    processors: int | None,
    most_clusters: int | None = None,
    instead: str | None = None,
) -> dict[str, Any]:
    """Return the anatomy record of the build in `folder`.

    workloads: parameters of small problems, the most telling first; the first that the build takes is run.
    processors: multiprocessors of the simulated GPU; None if no GPU of the target is simulated.
    most_clusters: of each launch, where not all are run, since the workload is large.
    instead: key of a build of the same kernel that is watched, where this one is not.
    Raises RecordError for a damaged build.json.
    """
    build = record.read("compile", folder / "build.json")
    body: dict[str, Any] = {"functions": [], "watched": None, "not_watched": None, "grids": []}
    if build.status == "failed":
        body["not_watched"] = "the build failed"
    if build.status == "ok":
        body |= _body(folder, build, workloads, processors, most_clusters, instead)
    return {
        "stage": "anatomy",
        "status": build.status,
        "reason": build.reason,
        "provenance": provenance.built(),
        **build.identity,
        **body,
    }


def _body(
    folder: Path,
    build: Compile,
    workloads: Sequence[Mapping[str, Any]],
    processors: int | None,
    most_clusters: int | None,
    instead: str | None,
) -> dict[str, Any]:
    """Return the parts of a compiled build, from artifacts and a run."""
    modules = {path.stem: _module(path.read_bytes(), path.name) for path in sorted(folder.glob("*.ptx"))}
    never = DSLS[build.dsl].not_simulated
    why = never or "no workload that this build takes is small enough to be run"
    if instead:
        why += f": its sizes are compile-time constants; {instead}, of the same kernel, was watched"
    if not modules:
        return {"not_watched": never or "there is no PTX in this build"}
    if processors is None:
        why = f"no GPU of {build.target} is simulated"
    if processors is None or never:
        workloads = ()
    message = processors if most_clusters and processors else FEW_PROCESSORS
    watched, seen = None, []
    for parameters in workloads:
        asked = host.Asked(folder, build.operator, build.kernel, parameters, message)
        try:
            with time_limit(LIMIT_SECONDS, processor=True):
                seen = watch(host.launches_of(asked, modules), most_clusters=most_clusters)
        except MachineFaultError:
            raise
        except Exception as error:  # whatever a kernel's own `bind` raises is its fault, and only its own
            why = plain(error) or type(error).__name__
            continue
        watched, why = {"parameters": dict(parameters), "processors": message, "schedule": "random"}, ""
        if most_clusters is not None:
            watched["most_clusters"] = most_clusters
        break
    for module in modules.values():
        _translations().keep(module)
    functions = _functions(folder, build, modules, seen)
    grids = _grids(folder, build, modules, workloads, processors) if processors else []
    return {"functions": functions, "watched": watched, "not_watched": why or None, "grids": grids}


@functools.cache
def _module(content: bytes, name: str) -> Module:
    """PTX, read once however many builds hold the same: TileGym's splits share their kernels."""
    return _translations().module(content.decode(), name)


@functools.cache
def _translations() -> Translations:
    return shared_translations()


def _functions(
    folder: Path, build: Compile, modules: Mapping[str, Module], seen: Sequence[Seen]
) -> list[dict[str, Any]]:
    """Return a build's functions: those that ran first, then by products and length."""
    ir = (folder / "kernel.mlir").read_text() if (folder / "kernel.mlir").is_file() else ""
    budgets = shared.budgets(ir) if ir else {}
    result: list[tuple[tuple[bool, bool, int], dict[str, Any]]] = []
    for stem, module in modules.items():
        entries = read_ptx((folder / f"{stem}.ptx").read_text())
        for kernel in module.kernels.values():
            note = next((one for one in seen if one.launch.kernel.name == kernel.name), None)
            launch, buffers = build.launch.get(kernel.name, LaunchShape(None, None, None)), budgets.get(kernel.name, [])
            text = _text_of(ir, kernel.name) if ir else ""
            order = (note is None and bool(seen), *_weight(kernel))
            result.append((order, function_of(folder, kernel, entries.get(kernel.name), launch, note, buffers, text)))
    return [function for _, function in sorted(result, key=lambda one: one[0])]


def _grids(
    folder: Path,
    build: Compile,
    modules: Mapping[str, Module],
    workloads: Sequence[Mapping[str, Any]],
    processors: int,
) -> list[dict[str, Any]]:
    """Return the grids that the host code requests per workload, on a whole GPU."""
    result = []
    for parameters in workloads:
        asked = host.Asked(folder, build.operator, build.kernel, parameters, processors)
        try:
            launches = host.launches_of(asked, modules)
        except MachineFaultError:
            raise
        except Exception:  # as above, where it is reported
            continue
        grids = {launch.kernel.name: list(launch.grid) for launch in launches}
        result.append({"parameters": dict(parameters), "processors": processors, "grids": grids})
    return result


def _weight(kernel: Kernel) -> tuple[bool, int]:
    """Return the sort key of functions: most matrix products first, then longest."""
    products = any(ins.base in ("tcgen05", "wgmma", "mma") for ins in kernel.instructions)
    return not products, -len(kernel.instructions)


def _text_of(ir: str, symbol: str) -> str:
    """Return the part of the IR of one kernel, with its type aliases."""
    start = ir.find(f"cuda.kernel @{symbol}(")
    end = ir.find("cuda.kernel @", start + 1)
    text = ir[start : end if end > 0 else len(ir)]
    aliases = dict(re.findall(r"^(!memref_smem\w*) = (.*)$", ir, re.MULTILINE))
    used = set(re.findall(r"!memref_smem\w*", text))
    return "\n".join(aliases.get(name, "") for name in sorted(used)) + text
