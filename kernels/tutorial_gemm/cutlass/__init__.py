"""Shared code of the steps of NVIDIA's SM100 GEMM tutorial in CuTe DSL.

The steps are `cutlass_0` to `cutlass_6`.
"""
