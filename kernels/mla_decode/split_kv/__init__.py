"""What our CuTe DSL kernels share that split requests: the plan, and the kernel that merges partial results."""
