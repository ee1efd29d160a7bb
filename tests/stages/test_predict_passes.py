"""What PyTorch launches in a call, as the predict stage counts it."""

import subprocess
import sys

import pytest
import torch

import ptxsim
from cutesnake.model.paths import ROOT, SCRIPTS
from cutesnake.stages.predict.passes import Passes


def passes(work) -> list:
    result: list = []
    with Passes(result.extend):
        work()
    return result


def moved(launch) -> list[int]:
    """Bytes of the tensors that a pass moves, in its order."""
    values = [launch.params[p.offset : p.offset + p.size] for p in launch.kernel.params]
    return [16 * int.from_bytes(value, "little") for value in values[1::2]]


def test_a_copy_reads_one_tensor_and_writes_the_other() -> None:
    a, b = torch.ones(1024, 64, dtype=torch.bfloat16), torch.empty(1024, 64, dtype=torch.bfloat16)
    (launch,) = passes(lambda: b.copy_(a))
    assert launch.name == "pytorch_copy_"
    assert moved(launch) == [a.nbytes, b.nbytes]
    assert launch.grid == (a.nbytes // 16 // 128, 1, 1)


def test_what_works_in_place_reads_and_writes_the_same_tensor() -> None:
    a = torch.ones(4096)
    (launch,) = passes(lambda: torch.nn.functional.silu(a, inplace=True))
    assert moved(launch) == [a.nbytes] * 2
    assert [x.address for x in launch.memory.allocations] == [a.data_ptr()]


def test_an_output_that_was_given_is_only_written() -> None:
    a, out = torch.ones(4096), torch.empty(4096)
    (launch,) = passes(lambda: torch.mul(a, 2.0, out=out))
    assert moved(launch) == [a.nbytes, out.nbytes]


def test_views_and_tensors_that_are_only_made_are_no_launches() -> None:
    a = torch.ones(64, 64)
    assert not passes(lambda: (a.view(-1)[5:], a.t(), torch.empty(100), torch.zeros(100)))


def test_the_clock_takes_a_pass_for_as_long_as_its_bytes_need() -> None:
    small, large = (torch.ones(n, dtype=torch.float32) for n in (1 << 18, 1 << 22))
    times = []
    for tensor in (small, large):
        (launch,) = passes(lambda tensor=tensor: tensor.add_(1.0))
        times.append(ptxsim.predict(launch, "h200").launches[0])
    assert times[1].end_us == pytest.approx(2 * large.nbytes / 8.67e6, rel=0.3)
    assert times[0].end_us < times[1].end_us / 4


def test_looking_at_what_pytorch_launches_does_not_import_its_compiler() -> None:
    code = """
import sys, torch
from cutesnake.stages.predict.passes import Passes
found = []
with Passes(found.extend):
    torch.zeros(4).add_(1.0)
print(len(found), "torch._dynamo" in sys.modules)
"""
    paths = f"{SCRIPTS}:{ROOT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": paths})
    assert done.stdout.split() == ["1", "False"], done.stderr
