"""Number of multiprocessors that kernels assume of a GPU.

Kernels that stay on the GPU use it. NVIDIA's runners ask the device instead.
"""

MULTIPROCESSORS = {"sm_90a": 132, "sm_100a": 148, "sm_103a": 148}  # of an H100 SXM or H200, a B200, a B300
