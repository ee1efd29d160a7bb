"""Do the job of a build: compile it unless it is there already, then take its static figures."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.catalog import load_kernel
from cutesnake.model.contract import Variant
from cutesnake.model.dsls import DSLS
from cutesnake.stages.compile.compile import RECORD, compile_build

KEPT = ".kept.json"  # beside build.json, which Snakemake removes before a job, and with what it was made from


def compile_job(
    operator: str,
    kernel: str,
    target: str,
    variant: Mapping[str, Any],
    folder: str,
    code: str,
    upstream: Iterable[str],
    figures: str | None,
    devices: str,
    **options: Any,
) -> None:
    """Make a build as `compile_build` does, then its inspect record at `figures`, if that is given.

    A whole build of the same code, variant, upstream files and compilers is not made again: figures may have changed,
    and what was measured of the build stays of use. `devices` is the path of devices.yaml.
    """
    made_from = _digest(operator, kernel, variant, code, upstream)
    if not _restore(Path(folder), made_from):
        compile_build(operator, kernel, target, Variant(variant["id"], variant["params"]), folder, **options)
        built = record.read("compile", Path(folder, RECORD))
        if built["status"] == "ok" and not built.get("again"):
            record.write_text(Path(folder, KEPT), json.dumps({"made_from": made_from, "record": built}))
    if figures is not None:
        from cutesnake.stages.inspect.build import inspect_build

        inspect_build(Path(folder, RECORD), devices, figures)


def _digest(operator: str, kernel: str, variant: Mapping[str, Any], code: str, upstream: Iterable[str]) -> str:
    """Return a digest of all that a build depends on; of compilers the versions that are installed now."""
    versions = {}
    for package in DSLS[load_kernel(operator, kernel).DSL].build_packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # which the build says
            versions[package] = ""
    files = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in upstream]
    return hashlib.sha256(json.dumps([code, variant, files, versions], sort_keys=True).encode()).hexdigest()


def _restore(folder: Path, made_from: str) -> bool:
    """Write the record of a build again if it was made from the same and its files are whole; False if not."""
    try:
        kept = json.loads((folder / KEPT).read_text())
        built = kept["record"]
        if kept["made_from"] != made_from:
            return False
        for name, digest in built["files"].items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
                return False
        record.write("compile", folder / RECORD, built)
    except (OSError, ValueError, LookupError, TypeError):  # not there, damaged, or of an older schema
        return False
    return True
