"""NVIDIA's dense GEMM classes for SM100 and SM90, called unmodified with our operator's tensors."""

from typing import Any

from cutlass.cute.runtime import make_fake_stream

from kernels.upstream.examples import module
from kernels.upstream.gemm import element, fake


def program(path: str, name: str, scheduler: str, **params: Any) -> tuple[Any, tuple]:
    """Return the class `name` of the example `path` and fake arguments.

    The class is made for a variant; sizes are dynamic. `scheduler` is how the class gives out tiles: `tiles`, `static`
    or `dynamic`.
    """
    p = params
    if scheduler == "dynamic":
        from kernels.upstream.cluster_launch import align_responses

        align_responses()
    tile, cluster = (p["tile_m"], p["tile_n"]), (p["cluster_m"], p["cluster_n"])
    sums = element(p["sums"])
    if path.startswith("hopper."):
        order = {"swizzle_size": 1, "raster_along_m": True} if scheduler == "static" else {}
        kernel = getattr(module(path), name)(sums, tile, cluster, **order)
    else:
        kernel = getattr(module(path), name)(sums, p["pair"], tile, cluster, use_tma_store=p["tma_store"])
    tensors = (
        fake(p["dtype"], first_major=p["a_major"] == "m"),
        fake(p["dtype"], first_major=p["b_major"] == "n"),
        fake(p["output"]),
    )
    most_clusters = () if scheduler == "tiles" else (p["most_clusters"],)
    return kernel, (*tensors, *most_clusters, make_fake_stream())
