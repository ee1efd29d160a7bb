"""Measure an empty kernel: the share of host and GPU in every cold sample.

Between the two events around a single call lies the time in which the GPU fetches the launch out of the host's memory.
Two hosts with the same GPU were seen to differ by 1.8 us, half of what a call of a few microseconds takes.
"""

SYMBOL = "nothing"
THREADS = 128
PTX = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry {SYMBOL}()
{{
    ret;
}}
"""


class Nothing:
    """The kernel, loaded into the current context; calling it enqueues a launch of one block."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        from cutesnake.stages.load.cutile import check

        self._driver, self._check = driver, check
        self._module = check("cuModuleLoadData", driver.cuModuleLoadData(PTX.encode() + b"\0"))
        self._function = check("cuModuleGetFunction", driver.cuModuleGetFunction(self._module, SYMBOL.encode()))

    def __call__(self, stream: int) -> None:
        """Enqueue the kernel on a stream."""
        launch = self._driver.cuLaunchKernel(self._function, 1, 1, 1, THREADS, 1, 1, 0, stream, 0, 0)
        self._check(f"cuLaunchKernel {SYMBOL}", launch)
