"""The stages of a run: every fact about a stage, once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuStage:
    """A stage that runs cases on the GPU."""

    limit_s: float  # of a case once the GPU is its own; generous: a case takes a second or two
    tool: str | None = None  # a program that it starts
    package: str | None = None  # a Python package (a distribution) that only it needs
    package_for: str = ""  # what that is for, in words that end a sentence
    times: bool = False  # what else the machine computes shows in its figures
    profiles: bool = False  # takes seconds a case, so it looks at the sweep's `profile` workloads only


GPU_STAGES = {
    "correctness": GpuStage(120.0),
    "timing": GpuStage(60.0, times=True, package="cuda-bench", package_for="timing needs it"),
    "nsys": GpuStage(60.0, times=True, tool="nsys", profiles=True),
    # ncu replays kernels many times
    "ncu": GpuStage(180.0, tool="ncu", package="ncu-report", package_for="reading profiles needs it", profiles=True),
}
PROFILES = tuple(name for name, stage in GPU_STAGES.items() if stage.profiles)
MEASUREMENTS = (*GPU_STAGES, "autotune")  # what a recorded set keeps
NOT_RUN = "not run: "  # how the reason of a case begins that was not worth running: nothing of it failed
