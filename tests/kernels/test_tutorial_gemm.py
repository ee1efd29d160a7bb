"""NVIDIA's tutorial on GEMM.

The operator, what its steps take, and that each is built, right and launched as reported.
"""

import re
from dataclasses import replace

import pytest

from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from kernels.tutorial_gemm.operator import DISTRIBUTIONS, Workload

OPERATOR = load_operator("tutorial_gemm")
STEPS = ("0", "1", "2", "3", "3_1", "4", "5", "6")
ASK_THE_HARDWARE = ("3_1", "4", "5", "6")  # for their tiles: as shipped, DSL 4.8.1 refuses them
SHARED_BYTES = 232448  # of a block on a B200


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_b_and_its_integers_are_the_same_numbers(distribution) -> None:
    import torch

    inputs = OPERATOR.make_inputs(Workload(256, 256, 128), 3, distribution=distribution)
    assert torch.equal(inputs.b.float(), inputs.b_quantized.float() * inputs.scale)
    assert int(inputs.b_quantized.abs().max()) <= 127 and len(inputs.b.unique()) >= (
        1 if distribution == "constant" else 50
    )


def test_the_reference_is_the_product() -> None:
    import torch

    workload = Workload(256, 512, 128)
    inputs = OPERATOR.make_inputs(workload, 0)
    torch.testing.assert_close(OPERATOR.reference(inputs, workload).c, inputs.a.float() @ inputs.b.float().T)
    assert OPERATOR.make_outputs(workload).c.shape == (256, 512)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"m": 0}, "m is 0; it must be a whole number"), ({"dtype": "bf16"}, "dtype is 'bf16'; allowed: fp16")],
)
def test_a_workload_that_makes_no_sense_is_refused(values, message) -> None:
    with pytest.raises(ValueError, match=message):
        Workload(**{"m": 256, "n": 256, "k": 128, **values})


@pytest.mark.parametrize(
    ("step", "values", "reason"),
    [
        ("0", {"m": 128}, None),
        ("1", {"m": 128}, "m is 128: this step of the tutorial takes multiples of 256"),
        ("5", {"n": 320}, "n is 320"),
        ("0", {"k": 65}, "k is 65: TMA takes rows of A and B in multiples of 16 bytes"),
        ("5", {"k": 72}, None),
        ("6", {"k": 72}, "k is 72: this step of the tutorial takes multiples of 128"),
    ],
)
def test_what_the_steps_take(step, values, reason) -> None:
    result = load_kernel("tutorial_gemm", f"cutlass_{step}").supports(
        Workload(**{"m": 256, "n": 256, "k": 128, **values})
    )
    assert (result is None) if reason is None else (reason in result)


@pytest.mark.parametrize("kernel", ["torch_matmul", "tilegym"])
def test_the_other_kernels_are_those_of_gemm(kernel) -> None:
    workload = Workload(256, 512, 128)
    module, plain = load_kernel("tutorial_gemm", kernel), load_kernel("gemm", kernel)
    assert module.variants(workload, "sm_100a") == plain.variants(workload.plain, "sm_100a")


def test_the_baseline_writes_the_product() -> None:
    import torch

    workload = Workload(256, 512, 128)
    inputs, outputs = OPERATOR.make_inputs(workload, 0), OPERATOR.make_outputs(workload)
    load_kernel("tutorial_gemm", "torch_matmul").bind(None, workload, inputs, outputs)(0)
    torch.testing.assert_close(outputs.c.float(), OPERATOR.reference(inputs, workload).c, rtol=2e-3, atol=2e-2)


def built(step: str, target: str = "sm_100a"):
    kernel = load_kernel("tutorial_gemm", f"cutlass_{step}")
    (variant,) = kernel.variants(Workload(256, 512, 128), target)
    folder = build("tutorial_gemm", f"cutlass_{step}", target, variant)
    entry = record.plain(record.read("compile", folder / "build.json"))
    assert entry["status"] == "ok", entry["reason"]
    return folder, entry


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_built_fits_a_block_and_spills_nothing(step, target) -> None:
    folder, entry = built(step, target)
    assert all(fixed["dynamic_shared_bytes"] <= SHARED_BYTES for fixed in entry["launch"].values())
    sass = {word.split(".")[0] for word in (folder / "kernel.sass").read_text().split()}
    assert {"UTCHMMA", "UTMALDG"} <= sass and not {"LDL", "STL"} & sass
    ptx = (folder / "kernel.ptx").read_text()
    assert ("clusterlaunchcontrol.try_cancel" in ptx) == (step in ASK_THE_HARDWARE)
    assert ("griddepcontrol.wait" in ptx) == (step == "6")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_right_in_the_simulator(step) -> None:
    parameters = {"m": 512, "n": 1024, "k": 128, "dtype": "fp16"}
    (variant,) = load_kernel("tutorial_gemm", f"cutlass_{step}").variants(Workload(**parameters), "sm_100a")
    few = replace(variant, id="two_clusters", params={"most_clusters": 2})  # step 3 gives each four tiles
    result = simulate("tutorial_gemm", f"cutlass_{step}", "sm_100a", few, parameters, schedules=["random", "late"])
    assert result["status"] == "ok", result["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_launches_are_those_that_the_build_makes_on_the_stream_that_is_asked_for(step) -> None:
    folder = built(step)[0]
    reported, made = launches("tutorial_gemm", f"cutlass_{step}", folder, Workload(512, 2304, 256))
    assert reported == made
    streams = re.findall(r"cuda\.launch_cfg\.create.*stream = (%\w+)\)", (folder / "kernel.mlir").read_text())
    assert len(streams) == len(made) and all(stream.startswith("%arg") for stream in streams)  # else a constant, 0
