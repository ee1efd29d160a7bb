"""Targets of several kernels, with the features needed there."""

from cutesnake.model.targets import TARGETS as KNOWN

# Of an H100 SXM or H200, a B200, a B300. Kernels that stay on the GPU use it; NVIDIA's runners ask the device instead.
MULTIPROCESSORS = {"sm_90a": 132, "sm_100a": 148, "sm_103a": 148}
EVERY: dict[str, tuple[str, ...]] = dict.fromkeys(KNOWN, ())
HOPPER = {"sm_90a": ("TMA", "wgmma")}
BLACKWELL = dict.fromkeys(("sm_100a", "sm_103a"), ("tcgen05", "tensor memory"))
TENSOR_CORES = HOPPER | BLACKWELL
