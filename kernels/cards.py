"""What kernels that stay on the GPU assume of it: how many multiprocessors it has. NVIDIA's runners ask the device."""

MULTIPROCESSORS = {"sm_90a": 132, "sm_100a": 148, "sm_103a": 148}  # of an H100 SXM or H200, a B200, a B300
