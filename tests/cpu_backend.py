"""A stand-in for a GPU build.

Kernels of a few lines in PyTorch on the CPU, right or wrong in a chosen way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from cutesnake.model.catalog import load_operator
from cutesnake.model.contract import Workload
from cutesnake.stages.measure.case import Case
from cutesnake.stages.measure.correctness import Bound

with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)  # tensors are tiny: threads cost more than they give

SMALL = {"batch": 3, "kv_length": 200, "heads": 16, "latent": 64, "rope": 16, "query_tokens": 1, "dtype": "bf16"}
SETTINGS = {
    "seeds": [0, 1],
    "distributions": list(load_operator("mla_decode").DISTRIBUTIONS),
}


def small_case(**changes: Any) -> Case:
    """A case of `mla_decode` that a CPU computes in milliseconds."""
    return Case(
        stage="correctness",
        operator="mla_decode",
        kernel="torch_sdpa",
        target="sm_90a",
        variant={"id": "eager", "params": {}},
        parameters={**SMALL, **changes},
        build="unused",
        settings=SETTINGS,
    )


def right(workload: Workload, inputs: Any, outputs: Any) -> None:
    """The operator in the workload's own precision, computed from what the inputs hold now."""
    computed = load_operator("mla_decode").same_precision(inputs, workload)
    outputs.out.copy_(computed.out)
    outputs.lse.copy_(computed.lse)


class CpuBackend:
    """Runs `kernel(workload, inputs, outputs)` on CPU tensors."""

    name = "cuda"
    device = "cpu"
    schedules = (None, None)
    relatives = True

    def __init__(self, kernel: Callable[[Workload, Any, Any], None]) -> None:
        self._kernel = kernel

    def bind(self, case: Case, workload: Workload, inputs: Any, outputs: Any) -> Bound:
        return Bound(lambda schedule, seed: self._kernel(workload, inputs, outputs))
