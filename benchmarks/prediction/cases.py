"""Recorded times to predict, and the launches of a case without a card."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import ptxsim
from cutesnake.catalog import load_operator
from cutesnake.load import cute as cute_load
from cutesnake.load.build import LoadedBuild
from cutesnake.measure.case import Case
from cutesnake.targets import TARGETS

# Looked at while the model was made; the others were opened once, at the end.
DEVELOPMENT = ("mla_decode", "gemm", "elementwise_add")
KINDS = {"warm": ("hot_us", "hot_sm_clock_mhz"), "cold": ("cold_us", "sm_clock_mhz")}
CARDS = {"nvidia_h200": "h200", "nvidia_h100_80gb_hbm3": "h100"}  # folder of a recorded set -> ptxsim's device


@dataclass(frozen=True)
class Measured:
    """One recorded figure: how long a call took, warm or cold, at which SM clock (MHz)."""

    device: str
    kind: str
    microseconds: float
    clock_mhz: float


@dataclass(frozen=True)
class Recorded:
    """A kernel's variant on a workload, and everything that was measured of it."""

    operator: str
    kernel: str
    variant: dict[str, Any]
    workload: str
    parameters: dict[str, Any]
    target: str
    measured: tuple[Measured, ...]

    @property
    def name(self) -> str:
        return f"{self.operator}/{self.kernel}/{self.variant['id']}/{self.workload}"

    def folder(self, results: Path) -> Path:
        return results / "compile" / self.operator / self.kernel / self.target / self.variant["id"]

    def case(self, results: Path) -> Case:
        folder = str(self.folder(results))
        return Case("predict", self.operator, self.kernel, self.target, self.variant, self.parameters, folder)


def recorded(sets: Path, operators: tuple[str, ...] = ()) -> list[Recorded]:
    """The timed cases of kernels in CuTe DSL in the recorded sets, both cards' figures of a case together.

    `operators` limits them; a case without the SM clock of its samples is left out.
    """
    found: dict[tuple[str, ...], tuple[dict[str, Any], list[Measured]]] = {}
    for folder, device in CARDS.items():
        for path in sorted((sets / folder).glob("timing-*.jsonl")):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                case = row["case"]
                if row["status"] != "ok" or case["dsl"] != "cute" or (operators and case["operator"] not in operators):
                    continue
                key = (case["operator"], case["kernel"], case["variant"]["id"], case["workload"])
                entry = found.setdefault(key, (case, []))
                for kind, (time, clock) in KINDS.items():
                    if row["metrics"].get(clock):
                        entry[1].append(Measured(device, kind, row["metrics"][time], row["metrics"][clock]))
    return [
        Recorded(
            case["operator"],
            case["kernel"],
            case["variant"],
            case["workload"],
            case["parameters"],
            case["target"],
            tuple(measured),
        )
        for case, measured in found.values()
    ]


@contextlib.contextmanager
def cheap_numbers() -> Iterator[None]:
    """Within the block torch.randn gives a small pattern instead of random numbers: a prediction does not look at them.

    Lengths and page tables are drawn otherwise and stay what they are.
    """
    real = torch.randn

    def pattern(*size: Any, generator: Any = None, **options: Any) -> torch.Tensor:
        return torch.zeros(*size, **options)

    torch.randn = pattern
    try:
        yield
    finally:
        torch.randn = real


def capture(case: Case) -> list[ptxsim.Launch]:
    """The launches of one call, captured from the build's own host code on tensors in host memory."""
    folder, launches = Path(case.build), []
    processors = TARGETS[case.target].simulated_processors
    module = ptxsim.Module.from_file(folder / "kernel.ptx")

    def open_captured(build: Path, function: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            stream = ptxsim.Pointer(torch.zeros(1), "stream")
            given = (*arguments[:-1], stream)
            launches.extend(ptxsim.capture(folder / "kernel.o", function, given, module, sm_count=processors))

        return call

    operator, workload = load_operator(case.operator), case.workload
    with cheap_numbers():
        inputs, outputs = operator.make_inputs(workload, 0), operator.make_outputs(workload)
    with cute_load.opened_by(open_captured, processors):
        runner = case.bind(workload, inputs, outputs, LoadedBuild(folder))
        runner(0)
    return launches
