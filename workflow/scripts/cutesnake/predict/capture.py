"""The launches of a case's call, caught on the way to a card that is not there, on tensors without numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutesnake.catalog import load_operator
from cutesnake.load import cute as cute_load
from cutesnake.measure.case import Case
from cutesnake.targets import TARGETS


def captured(case: Case) -> list[Any]:
    """ptxsim's launches of one call of a CuTe build, in order.

    The tensors are those of `make_inputs`, with zeros in place of random numbers: a clock does not look at them, and
    drawing gigabytes of them would take longer than predicting. Lengths, page tables and the like are what they are.
    Raises ptxsim.CaptureError or ptxsim.PtxError for a build that cannot be captured.
    """
    import torch

    import ptxsim

    folder = Path(case.build)
    processors = TARGETS[case.target].simulated_processors
    assert processors is not None  # the plan predicts for no other target
    module = ptxsim.Module.from_file(folder / "kernel.ptx")
    found: list[Any] = []

    def open_captured(build: Path, function: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            stream = ptxsim.Pointer(torch.zeros(1), "stream")  # the object asks for one and hands it back to us
            given = (*arguments[:-1], stream)
            found.extend(ptxsim.capture(folder / "kernel.o", function, given, module, sm_count=processors))

        return call

    operator, workload = load_operator(case.operator), case.workload
    with _zeros_for_random_numbers():
        inputs, outputs = operator.make_inputs(workload, 0), operator.make_outputs(workload)
    with cute_load.opened_by(open_captured, processors):
        case.bind(workload, inputs, outputs)(0)
    return found


@contextmanager
def _zeros_for_random_numbers() -> Iterator[None]:
    """Within the block `torch.randn` gives zeros, which the system makes only where they are read."""
    import torch

    real = torch.randn

    def zeros(*size: Any, generator: Any = None, **options: Any) -> Any:
        return torch.zeros(*size, **options)

    torch.randn = zeros
    try:
        yield
    finally:
        torch.randn = real
