"""What builds of kernels in CuTe DSL share: `compile`, and fake arguments."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Variant

Compile = Callable[[Variant, str, Path], dict[str, Any]]


def compile_program(program: str, function: str, *arguments: Any, **constants: Any) -> Compile:
    """Return a contract's `compile`, which builds what `program`, `module:function`, returns.

    `program` is called with the arguments, constants and parameters of a variant, where the DSL knows its target. It
    returns the host function with its fake arguments. The object exports that as `function`.
    """

    def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
        from cutesnake.stages.compile.cute import build_program

        return build_program(program, function, target, folder, *arguments, **constants, **variant.params)

    return compile


def row_major(element: Any, *shape: Any, align: int = 16) -> Any:
    """Return a fake compact row-major tensor of type `element`, aligned by `align` bytes.

    An extent is a number, or a `cute.sym_int32()` where only a launch knows it.
    """
    from cutlass.cute.runtime import make_fake_compact_tensor

    order = tuple(reversed(range(len(shape))))
    return make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=align)
