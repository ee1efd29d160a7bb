"""Find installed tools and Python packages, without importing any."""

import functools
import importlib.metadata
import importlib.util
import shutil
from pathlib import Path

NSIGHT_COMPUTE_NSYS = "host/target-linux-x64/nsys"  # Nsight Compute carries an nsys of its own
PACKAGES = (
    "nvidia-cutlass-dsl",
    "cuda-tile",
    "nvidia-cuda-tileiras",
    "apache-tvm-ffi",
    "cuda-bindings",
    "cuda-bench",
    "ncu-report",
    "torch",
    "snakemake",
)


def tools() -> dict[str, str | None]:
    """Return profilers and C compilers with their paths; None for missing ones."""
    result = {tool: shutil.which(tool) for tool in ("ncu", "nsys", "compute-sanitizer", "gcc", "cc", "clang")}
    if result["nsys"] is None and result["ncu"]:
        inside = Path(result["ncu"]).resolve().parent
        for folder in (inside, *inside.parents[:4]):
            if (folder / NSIGHT_COMPUTE_NSYS).exists():
                result["nsys"] = str(folder / NSIGHT_COMPUTE_NSYS)
                break
        else:  # CUDA's own ncu is a script on the PATH; what it starts is installed apart
            apart = sorted(Path("/opt/nvidia/nsight-compute").glob(f"*/{NSIGHT_COMPUTE_NSYS}"))
            result["nsys"] = str(apart[-1]) if apart else None
    return result


def packages() -> dict[str, str | None]:
    """Versions of the distributions that results depend on; None for one that is not installed."""
    return {package: version(package) for package in PACKAGES}


@functools.cache
def version(package: str) -> str | None:
    """Version of a distribution; None for one that is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def module(name: str, distribution: str) -> str | None:
    """Return the version of a package, without importing it; None if not importable.

    The interpreter is the one that runs the cases: the GPU worker is started with it and with its PYTHONPATH.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:  # a mere folder of that name has no origin
        return None
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
