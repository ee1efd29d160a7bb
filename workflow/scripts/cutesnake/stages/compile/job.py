"""Do the job of a build: compile it if necessary, then take static figures."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cutesnake.model import provenance, record
from cutesnake.model.contract import Variant
from cutesnake.stages.compile.compile import RECORD, compile_build

KEPT = ".kept.json"  # a copy of build.json, which Snakemake removes before a job


def compile_job(
    operator: str,
    kernel: str,
    target: str,
    variant: Mapping[str, Any],
    folder: str,
    recipe: Mapping[str, Any],
    upstream: Iterable[str],
    figures: str | None,
    figures_recipe: Mapping[str, Any] | None,
    devices: str,
    **options: Any,
) -> None:
    """Make a build as `compile_build` does, then its inspect record at `figures`.

    A whole build of the same recipe and upstream files is not made again: figures may have changed, and what was
    measured of the build stays of use. `devices` is the path of devices.yaml.
    """
    upstream, built = list(upstream), Path(folder, RECORD)
    if not _restore(Path(folder), recipe, upstream):
        with provenance.making(recipe, upstream):
            compile_build(operator, kernel, target, Variant(variant["id"], variant["params"]), folder, **options)
        if record.read("compile", built).status == "ok":
            record.write_text(Path(folder, KEPT), built.read_text(encoding="utf-8"))
        else:
            Path(folder, KEPT).unlink(missing_ok=True)
    if figures is not None:
        from cutesnake.stages.inspect.build import inspect_build

        with provenance.making(figures_recipe, [built]):
            inspect_build(built, devices, figures)


def _restore(folder: Path, recipe: Mapping[str, Any], upstream: Iterable[str]) -> bool:
    """Rewrite a record of equal inputs whose files are whole; False otherwise."""
    from cutesnake.planning.outputs import difference

    try:
        built, made = record.read_whole("compile", folder / KEPT)
        if difference(made, recipe, {provenance.name_of(path): path for path in upstream}) is not None:
            return False
        for name, digest in built["files"].items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
                return False
        record.write_text(folder / RECORD, (folder / KEPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, damaged, or of an older schema
        return False
    return True
