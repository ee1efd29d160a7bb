"""The copy by PyTorch: the baseline a user has without own kernels."""

from kernels.async_copies.operator import Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    outputs.y.copy_(inputs.x)
