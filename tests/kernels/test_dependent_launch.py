"""The operator `dependent_launch`.

What each kernel does before and after it waits for the one before it.
"""

import re

import msgspec
import pytest

from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.records.correctness import Simulated
from cutesnake.report.kernel_panels import compare_cost
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation

torch = pytest.importorskip("torch")
OPERATOR = load_operator("dependent_launch")
TARGETS = ("sm_90a", "sm_100a")


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_the_baseline_writes_both_sums(dtype) -> None:
    work = OPERATOR.Workload(5, 64, dtype)
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    load_kernel("dependent_launch", "torch_two_adds").bind(None, work, inputs, outputs)(0)
    assert torch.equal(outputs.w, inputs.u + inputs.v) and torch.equal(outputs.y, outputs.w + inputs.x)


@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
def test_a_second_kernel_that_does_not_wait_shows(distribution) -> None:
    work = OPERATOR.Workload(8, 300)
    inputs = OPERATOR.make_inputs(work, 1, distribution=distribution)
    outputs = OPERATOR.make_outputs(work)
    outputs.y.copy_(outputs.w + inputs.x)
    outputs.w.copy_(inputs.u + inputs.v)
    reference, same = OPERATOR.reference(inputs, work), OPERATOR.same_precision(inputs, work)
    result = checker.compare_outputs(outputs, reference, same, OPERATOR.tolerance("fp32"))
    assert result["w"].passed and not result["y"].passed
    outputs.y.copy_(outputs.w + inputs.x)
    assert checker.compare_outputs(outputs, reference, same, OPERATOR.tolerance("fp32"))["y"].passed


def test_with_and_without_the_early_launch_are_both_run() -> None:
    for kernel in ("cutlass_pdl", "cutile"):
        result = load_kernel("dependent_launch", kernel).variants(OPERATOR.Workload(4, 1024), "sm_90a")
        assert [variant.params["early"] for variant in result] == [True, False]


def built(kernel: str, target: str, number: int, **values):
    work = OPERATOR.Workload(**values)
    variant = load_kernel("dependent_launch", kernel).variants(work, target)[number]
    return variant, build("dependent_launch", kernel, target, variant)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1], ids=["early", "plain"])
@pytest.mark.parametrize(("target", "dtype"), [("sm_90a", "fp32"), ("sm_100a", "bf16")])
def test_nvidias_kernels_are_right_on_every_distribution(target, dtype, number) -> None:
    for rows, columns in ((37, 256), (1, 101)):
        values = {"rows": rows, "columns": columns, "dtype": dtype}
        variant, folder = built("cutlass_pdl", target, number, **values)
        case = Case(
            stage="correctness",
            operator="dependent_launch",
            kernel="cutlass_pdl",
            target=target,
            variant={"id": variant.id, "params": dict(variant.params)},
            parameters=values,
            build=str(folder),
            settings={"schedules": ["random", "late"], "seeds": [0], "distributions": list(OPERATOR.DISTRIBUTIONS)},
        )
        result = simulation.simulate(case)
        assert result["reason"] is None
        counted = msgspec.convert(result["metrics"]["simulated"], Simulated)
        assert len(counted.launches) == 2 and not any("fewer" in note for note in compare_cost(counted))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_only_the_early_build_asks_for_an_early_launch(target) -> None:
    attribute = re.compile(r"programmatic_stream_serialization_allowed\[%\d+\] %c(\d)_i32")

    def allowed(number: int) -> list[str]:
        """Per launch, whether it may start before the one before it has ended."""
        _, folder = built("cutlass_pdl", target, number, rows=1, columns=1)
        return attribute.findall((folder / "kernel.mlir").read_text())

    assert allowed(0) == ["0", "1"] and allowed(1) == ["0", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_in_cutile_x_is_read_before_the_wait_and_w_after_it(target) -> None:
    _, folder = built("cutile", target, 0, rows=4, columns=1024)
    assert record.plain(record.read("compile", folder / "build.json"))["symbols"] == ["first", "second"]
    first, second = (re.findall(r"\b(LDG|STG|PREEXIT|ACQBULK)\b", sass(folder, name)) for name in ("kernel", "second"))
    signal, wait = first.index("PREEXIT"), second.index("ACQBULK")
    assert first[:signal] == ["LDG"] * 16 and "LDG" not in first[signal:]
    assert second[:wait] == ["LDG"] * 8 and second[wait:].count("LDG") == 8
    _, plain = built("cutile", target, 1, rows=4, columns=1024)
    assert not re.search("PREEXIT|ACQBULK", sass(plain, "kernel") + sass(plain, "second"))


def sass(folder, name: str) -> str:
    return (folder / f"{name}.sass").read_text()
