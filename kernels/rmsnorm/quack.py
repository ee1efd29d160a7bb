"""quack's RMSNorm (github.com/Dao-AILab/quack), CuTe DSL for Hopper and later, where its package is installed.

The package compiles a kernel for the number of columns and the types at the first call, which `bind` makes.
"""

from functools import partial

from cutesnake.model.contract import INSTALLED, Build, Runner
from kernels.rmsnorm.operator import Inputs, Outputs, Workload
from kernels.upstream.installed import copying_runner, import_package, nothing_built, variants

DSL = "cute_jit"
SOURCE = INSTALLED
NEEDS = {"quack": "quack-kernels"}
TARGETS = dict.fromkeys(("sm_90a", "sm_100a", "sm_103a", "sm_120a"), ("clusters",))
compile = partial(nothing_built, "quack")


def supports(workload: Workload) -> str | None:
    return None


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    rmsnorm = import_package("quack").rmsnorm
    return copying_runner(inputs.x, lambda: [rmsnorm(inputs.x, inputs.weight, eps=inputs.eps)], outputs.y, warm=True)
