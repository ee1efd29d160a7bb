"""What the adapters of TileGym's two matrix products share."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cutesnake.model.contract import Variant, not_baked
from kernels.gemm.operator import DTYPES, OUTPUT, Workload
from kernels.upstream import tilegym as upstream
from kernels.upstream.gemm import misaligned


@dataclass(frozen=True)
class Tiles:
    """A configuration of TileGym's autotuner, its field names in lower case.

    Where `warps` is not None, this project adds it: so many worker warps (0: the compiler chooses).
    """

    tile_size_m: int
    tile_size_n: int
    tile_size_k: int
    num_ctas: int
    occupancy: int = 1
    warps: int | None = None

    @property
    def id(self) -> str:
        hints = "" if self.warps is None else f"_o{self.occupancy}_w{self.warps}"
        return f"{self.tile_size_m}x{self.tile_size_n}x{self.tile_size_k}_c{self.num_ctas}{hints}"

    @property
    def params(self) -> dict[str, int]:
        """Parameters of a variant; `warps` only where this project sets it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@not_baked
def supports(workload: Workload) -> str | None:
    """One product of matrices."""
    return "TileGym's matmul takes matrices without a batch" if workload.batch > 1 else None


@not_baked
def variants(workload: Workload, tiles: tuple[Tiles, ...]) -> tuple[Variant, ...]:
    """Return a build per type, layout and configuration; TMA can fetch `aligned` rows."""
    w = workload
    layout = ("_am" if w.a_major == "m" else "") + ("_bn" if w.b_major == "n" else "")
    contiguous = ((w.a_major, w.dtype), (w.b_major, w.dtype), ("n", OUTPUT[w.dtype]))
    aligned = not any(misaligned(getattr(w, major), 8 * DTYPES[dtype]) for major, dtype in contiguous)
    params: dict[str, Any] = {"dtype": w.dtype, "output": OUTPUT[w.dtype], "aligned": aligned}
    params |= {"a_major": w.a_major, "b_major": w.b_major}
    ending = "" if aligned else "_unaligned"
    return tuple(Variant(f"{w.dtype}{layout}_{tile.id}{ending}", {**params, **tile.params}) for tile in tiles)


def configured(target: str, params: Mapping[str, Any], name: str) -> Any:
    """Return TileGym's kernel `<name>_kernel` as the variant's configuration compiles it.

    Raises ValueError if its autotuner does not know that configuration on this target.
    """
    module = upstream.module("matmul")
    if "warps" in params:
        return upstream.hinted(getattr(module, f"{name}_kernel"), params)
    wanted = {n.upper() if n.startswith("tile") else n: params[n] for n in Tiles(0, 0, 0, 0).params}
    return upstream.configured(module, f"{name}_kernel", f"{name}_autotune_configs", target, wanted)
