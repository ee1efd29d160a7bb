"""The operator `elementwise_add`: integers, and every CuTe kernel of it, with static and dynamic layouts."""

import re

import msgspec
import pytest

from builds import build
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.records.correctness import Simulated
from cutesnake.report.kernel_panels import compare_cost
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation

torch = pytest.importorskip("torch")
OPERATOR = load_operator("elementwise_add")
CUTE = ("cute", "cute_tv", "cutlass_ampere")
TARGETS = ("sm_90a", "sm_100a")


def test_an_error_of_one_in_an_integer_shows() -> None:
    work = OPERATOR.Workload(100, 300, "int32")
    inputs = OPERATOR.make_inputs(work, 0)
    reference, same = OPERATOR.reference(inputs, work), OPERATOR.same_precision(inputs, work)

    def passes(c: torch.Tensor) -> bool:
        result = checker.compare_outputs(OPERATOR.Outputs(c), reference, same, OPERATOR.tolerance("int32"))
        return result["c"].passed

    assert passes(inputs.a + inputs.b)
    wrong = inputs.a + inputs.b
    wrong[57, 123] += 1
    assert not passes(wrong) and not passes(OPERATOR.make_outputs(work).c)


@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
def test_sums_of_integers_fit(distribution) -> None:
    work = OPERATOR.Workload(100, 1000, "int32")
    inputs = OPERATOR.make_inputs(work, 1, distribution=distribution)
    exact = inputs.a.long() + inputs.b.long()
    assert torch.equal(exact.int().long(), exact)
    assert (int(exact.abs().max()) > 2**30) == (distribution == "large")


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_the_baseline_writes_what_pytorch_computes(dtype) -> None:
    work = OPERATOR.Workload(5, 64, dtype)
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    load_kernel("elementwise_add", "torch_add").bind(None, work, inputs, outputs)(0)
    assert torch.equal(outputs.c, inputs.a + inputs.b)


def test_a_static_build_takes_its_own_shape_only() -> None:
    kernel = load_kernel("elementwise_add", "cute_tv")
    dynamic, static = kernel.variants(OPERATOR.Workload(48, 1024), "sm_90a")
    assert (dynamic.id, static.id) == ("fp32_dynamic", "fp32_static_48x1024")
    other = OPERATOR.Workload(48, 1028)
    inputs, outputs = OPERATOR.make_inputs(other, 0), OPERATOR.make_outputs(other)
    with pytest.raises(ValueError, match="this build is for 48 x 1024 elements, not 48 x 1028"):
        kernel.bind(type("Build", (), {"params": static.params}), other, inputs, outputs)


def simulate(kernel: str, target: str, variant_number: int = 0, **values) -> dict:
    work = OPERATOR.Workload(**values)
    variant = load_kernel("elementwise_add", kernel).variants(work, target)[variant_number]
    case = Case(
        stage="correctness",
        operator="elementwise_add",
        kernel=kernel,
        target=target,
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters=values,
        build=str(build("elementwise_add", kernel, target, variant)),
        settings={"schedules": ["random", "late"], "seeds": [0], "distributions": list(OPERATOR.DISTRIBUTIONS)},
    )
    return simulation.simulate(case)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", CUTE)
@pytest.mark.parametrize(
    ("target", "dtype"), [("sm_90a", "fp32"), ("sm_100a", "int32"), ("sm_90a", "int32"), ("sm_100a", "bf16")]
)
def test_every_kernel_is_right_in_every_type(kernel, target, dtype) -> None:
    for columns in (1000, 1001):
        result = simulate(kernel, target, rows=37, columns=columns, dtype=dtype)
        assert result["reason"] is None
        counted = msgspec.convert(result["metrics"]["simulated"], Simulated)
        assert not any("fewer" in note for note in compare_cost(counted))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [48, 37])
def test_static_layouts_are_right_with_and_without_a_ragged_edge(rows) -> None:
    assert simulate("cute_tv", "sm_90a", 1, rows=rows, columns=1024, dtype="fp32")["reason"] is None


@pytest.mark.slow
def test_what_a_static_layout_and_vectors_save() -> None:
    # Loads and predicates in the machine code. NVIDIA's copies element by element, this project's a vector at a time.
    work = OPERATOR.Workload(48, 1024)

    def sass(kernel: str, number: int = 0) -> str:
        variant = load_kernel("elementwise_add", kernel).variants(work, "sm_90a")[number]
        return (build("elementwise_add", kernel, "sm_90a", variant) / "kernel.sass").read_text()

    dynamic, static, theirs = sass("cute_tv"), sass("cute_tv", 1), sass("cutlass_ampere")
    loads = [len(re.findall(r"\bLDG\.E", text)) for text in (dynamic, static, theirs)]
    assert loads == [8 + 32, 8, 32], "vectors and the ragged edge; vectors alone; elements"
    assert static.count("LDG.E.128") == 8 and "LDG.E.128" not in theirs
