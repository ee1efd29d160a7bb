"""The empty kernel, which measures what a single launch costs on this host."""

import subprocess

import pytest

import ptxsim
import tiny_build
from cutesnake.model.targets import TARGETS
from cutesnake.stages.measure import empty_kernel


@pytest.mark.parametrize("target", ["sm_80", *TARGETS])
def test_the_kernel_that_does_nothing_assembles(tmp_path, target):
    source = tmp_path / "nothing.ptx"
    source.write_text(empty_kernel.PTX)
    command = [tiny_build.tool("ptxas"), f"-arch={target}", "-o", str(tmp_path / "nothing.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_kernel_runs_to_its_end_without_parameters():
    result = ptxsim.run(
        ptxsim.launch(ptxsim.Module.from_text(empty_kernel.PTX), empty_kernel.SYMBOL, (1,), (empty_kernel.THREADS,), ())
    )
    assert not result.findings
