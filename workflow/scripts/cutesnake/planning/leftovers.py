"""Find what `clean` removes: results without a plan, and files without a build."""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from cutesnake.model.stages import GPU_STAGES
from cutesnake.planning.matrix import Plan

# Stage -> names in the paths of its results: operator, kernel, target, variant, workload.
DEPTH = {
    **dict.fromkeys(("plan", "compare", "plot", "change", "anatomy", "report"), 1),
    **dict.fromkeys(("simulated", "simulated_rest"), 3),
    **dict.fromkeys(("compile", "inspect", "autotune"), 4),  # autotune: the workload in place of the variant
    **dict.fromkeys((*GPU_STAGES, "predict"), 5),
}
OTHERS = ("runtime", "store", "operations.html")  # besides results that are named after operators


def find(results: Path, plan: Plan) -> list[Path]:
    """Return the files below `results` that no case of a full plan names, sorted.

    Kernels and targets that this machine cannot build are kept whole: their results come from another machine. So is
    whatever the workflow does not name after an operator, such as the store of compiled functions.
    """
    named, unknown = _named(plan), {f"{d.operator}/{d.kernel}/{d.target}" for d in plan.decisions if not d.build.ok}
    result = []
    for folder in ("log", "batch", *DEPTH):
        for place, _, files in os.walk(results / folder):
            for file in files:
                path = Path(place, file)
                key = _key(path.relative_to(results))
                without_build = folder == "compile" and len(key) == 4 and not Path(place, "build.json").exists()
                kept = "/".join(key) in named or "/".join(key[:3]) in unknown
                if key and (without_build or not kept):
                    result.append(path)
    return sorted(result)


def summary(paths: Collection[Path], results: Path) -> str:
    """Return the text that lists what is removed, a line per operator, kernel and target."""
    groups: dict[str, list[int]] = {}
    for path in paths:
        group = "/".join(_key(path.relative_to(results))[:3])
        groups.setdefault(group, []).append(path.lstat().st_size)
    lines = [f"  {group}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB" for group, sizes in sorted(groups.items())]
    return "\n".join([f"clean removes {len(paths)} files:", *lines]) if paths else "clean: nothing to remove"


def remove(paths: Iterable[Path], results: Path) -> None:
    """Delete files, and the folders below `results` that become empty."""
    for path in paths:
        path.unlink(missing_ok=True)
        for parent in path.parents:
            if parent == results or any(parent.iterdir()):
                break
            parent.rmdir()


def _named(plan: Plan) -> set[str]:
    """Return the keys of everything planned, and of what holds it: operator, kernel and target."""
    cases = [case.id for case in (*plan.cases.values(), *plan.simulated.values())]
    keys = {*plan.builds, *plan.stand_ins, *(case.build.key for case in cases), *(case.key for case in cases)}
    keys |= {f"{case.family}/{case.workload}" for case in cases}
    keys |= {"/".join((d.operator, d.kernel, d.target)) for d in plan.decisions}
    keys |= {"/".join((d.operator, d.kernel)) for d in plan.decisions}
    return keys | set(plan.operators)


def _key(path: Path) -> tuple[str, ...]:
    """Return the parts of a result's key that its path has, else nothing."""
    parts, batch = path.parts, False
    while parts[0] in ("log", "batch"):
        batch, parts = batch or parts[0] == "batch", parts[1:]
    parts = parts[1:] if parts[:2] == ("report", "anatomy") else parts
    stage, names = parts[0], parts[1:]
    if stage not in DEPTH or not names or names[0] in OTHERS:
        return ()
    last = names[-1].removesuffix(Path(names[-1]).suffix).partition("@")[0]
    names = names[:-1] if last == "roofline" else (*names[:-1], last)
    return names[: min(DEPTH[stage], 4 if batch else 5)]
