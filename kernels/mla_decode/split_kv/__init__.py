"""Plan and combine kernel shared by the CuTe DSL kernels that split requests."""
