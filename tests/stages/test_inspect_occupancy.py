"""Theoretical occupancy: published examples, kernels whose figures are known, and NVIDIA's own calculator."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest
from cuda.pathfinder import find_nvidia_header_directory

from cutesnake.model.paths import ROOT
from cutesnake.planning.devices import read_devices
from cutesnake.stages.inspect.occupancy import Usage, occupancy

LIMITS = read_devices(ROOT / "config/devices.yaml").limits


@pytest.mark.parametrize(
    ("capability", "usage", "blocks", "percent", "limiter"),
    [
        # CUDA C++ Programming Guide, «Multiprocessor Level»: 512 threads of 64 registers fit twice, of 65 once.
        ("8.0", Usage(512, 64, 0), 2, 50.0, "registers"),
        ("8.0", Usage(512, 65, 0), 1, 25.0, "registers"),
        # FlashMLA's SM90 kernel, as its authors describe it.
        ("9.0", Usage(256, 240, 230816), 1, 12.5, "shared_memory, registers"),
        # NVIDIA's MLA decode for SM100: registers, shared and tensor memory each allow one block.
        ("10.0", Usage(384, 168, 232448, 4, 512), 1, 18.75, "shared_memory, registers, tensor_memory"),
        # TileGym's MLA decode for an RTX 5090.
        ("12.0", Usage(256, 255, 92572, 2), 1, 16.67, "shared_memory, registers"),
        # Small blocks run into the 32 slots of an SM, then 24 on an RTX 5090; large ones into its warps.
        ("9.0", Usage(32, 16, 0), 32, 50.0, "blocks"),
        ("12.0", Usage(32, 16, 0), 24, 50.0, "blocks"),
        ("9.0", Usage(1024, 32, 0), 2, 100.0, "registers, warps"),
        ("9.0", Usage(768, 24, 0), 2, 75.0, "warps"),
        ("12.0", Usage(1024, 24, 0), 1, 66.67, "warps"),
        # 99 KB is the most that an RTX 5090 gives a block; half of it, reserve included, fits twice.
        ("12.0", Usage(128, 32, 101376), 1, 8.33, "shared_memory"),
        ("12.0", Usage(128, 32, 50176), 2, 16.67, "shared_memory"),
        ("12.0", Usage(128, 32, 50177), 1, 8.33, "shared_memory"),
        # Tensor memory alone: 128 of 512 columns.
        ("10.0", Usage(128, 32, 0, 0, 128), 4, 25.0, "tensor_memory"),
        ("10.0", Usage(128, 40, 0, 5), 12, 75.0, "registers, named_barriers"),
    ],
)
def test_worked_examples(capability, usage, blocks, percent, limiter) -> None:
    result = occupancy(usage, LIMITS[capability])
    assert (result.blocks_per_sm, result.percent, result.limiter) == (blocks, percent, limiter)
    assert result.warps_per_sm == blocks * -(-usage.threads // 32)


@pytest.mark.parametrize(
    ("capability", "usage", "limiter"),
    [
        ("12.0", Usage(384, 168, 232448), "shared_memory"),  # the SM100 kernel on an RTX 5090
        ("9.0", Usage(1024, 65, 0), "registers"),
        ("9.0", Usage(128, 32, 0, 0, 64), "tensor_memory"),  # there is none on Hopper
    ],
)
def test_a_block_that_asks_for_too_much_does_not_fit(capability, usage, limiter) -> None:
    result = occupancy(usage, LIMITS[capability])
    assert (result.blocks_per_sm, result.percent, result.limiter) == (0, 0.0, limiter)


PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "cuda_occupancy.h"
int main(void) {
  int major, minor, threads, registers, barriers, warps, registers_per_block, per_sm, per_block, reserved;
  long shared;
  while (scanf("%d %d %d %d %ld %d %d %d %d %d %d", &major, &minor, &threads, &registers, &shared, &barriers, &warps,
               &registers_per_block, &per_sm, &per_block, &reserved) == 11) {
    cudaOccDeviceProp p; memset(&p, 0, sizeof p);
    p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = 32 * warps; p.regsPerBlock = registers_per_block; p.regsPerMultiprocessor = 65536;
    p.warpSize = 32; p.sharedMemPerBlock = 49152; p.sharedMemPerMultiprocessor = per_sm; p.numSms = 1;
    p.sharedMemPerBlockOptin = per_block; p.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes f; memset(&f, 0, sizeof f);
    f.maxThreadsPerBlock = 1024; f.numRegs = registers; f.sharedSizeBytes = 0;
    f.partitionedGCConfig = PARTITIONED_GC_OFF;
    f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; f.maxDynamicSharedSizeBytes = per_block; f.numBlockBarriers = barriers;
    cudaOccDeviceState s; memset(&s, 0, sizeof s);
    s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult r;
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &f, &s, threads, shared);
    printf("%d\\n", status == CUDA_OCC_SUCCESS ? r.activeBlocksPerMultiprocessor : -1);
  }
}
"""


def calculator(folder: Path) -> Path:
    """NVIDIA's cuda_occupancy.h, from the package that the environment installs, as a program."""
    header = next(Path(find_nvidia_header_directory("cudart")).rglob("cuda_occupancy.h"))
    (folder / "occupancy.c").write_text(PROGRAM)
    command = ["gcc", "-w", "-O1", f"-I{header.parent}", "-o", str(folder / "occupancy"), str(folder / "occupancy.c")]
    subprocess.run(command, check=True)
    return folder / "occupancy"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc to build NVIDIA's calculator from its header")
@pytest.mark.parametrize("capability", LIMITS)
def test_as_nvidias_calculator_has_it(tmp_path, capability) -> None:
    limits = LIMITS[capability]
    usages = [
        Usage(threads, registers, shared, barriers)
        for threads, registers, shared, barriers in itertools.product(
            (1, 32, 33, 96, 128, 160, 256, 288, 384, 512, 640, 768, 1000, 1024),
            (8, 16, 24, 32, 33, 40, 56, 64, 65, 80, 96, 128, 168, 200, 224, 240, 255),
            (0, 1, 1024, 16384, 49152, 50176, 50177, 65536, 75776, 92572, 101376, 101377, 166912, 219612, 232448),
            (0,) if capability == "10.3" else (0, 1, 5, 16),  # CUDA 13.0's header does not tell 10.3 apart yet
        )
    ]
    major, minor = capability.split(".")
    device = (limits.warps, limits.registers_per_block, limits.shared_bytes)
    device += (limits.shared_bytes_per_block, limits.shared_bytes_reserved)
    lines = [
        f"{major} {minor} {u.threads} {u.registers_per_thread} {u.shared_bytes} {u.named_barriers} "
        + " ".join(map(str, device))
        for u in usages
    ]
    done = subprocess.run([calculator(tmp_path)], input="\n".join(lines), capture_output=True, text=True, check=True)
    theirs = list(map(int, done.stdout.split()))
    own = [occupancy(usage, limits).blocks_per_sm for usage in usages]
    different = [(u, a, b) for u, a, b in zip(usages, own, theirs, strict=True) if a != b]
    assert not different, f"{len(different)} of {len(usages)} differ; first: {different[0]}"
    assert len(set(own)) > 5
