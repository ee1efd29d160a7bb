"""Baseline of `rmsnorm` in plain PyTorch: `torch.nn.functional.rms_norm`.

It has no argument for the output: what it returns is copied to the outputs by `finish`, outside of the timed calls.
"""

from cutesnake.model.contract import Build, Runner
from kernels.rmsnorm.operator import Inputs, Outputs, Workload
from kernels.upstream.installed import copying_runner
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    from torch.nn.functional import rms_norm

    columns = (workload.columns,)
    return copying_runner(inputs.x, lambda: [rms_norm(inputs.x, columns, inputs.weight, inputs.eps)], outputs.y)
