"""What kernels are made of: every fact about a DSL, once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dsl:
    """One way of writing kernels. Packages are names of distributions."""

    label: str
    build_packages: tuple[str, ...]  # what compiling imports or starts
    run_packages: tuple[str, ...]  # what loading and launching a build imports
    not_simulated: str | None = None  # why ptxsim cannot execute its builds; None if it can
    unchecked: tuple[str, ...] = ()  # checks of ptxsim that its builds are not held to: see docs/ptxsim/checks.md
    simulation_packages: tuple[str, ...] = ("torch",)  # what binding a build to the simulator imports
    compilers: tuple[str, ...] = ()  # whose versions a build depends on


DSLS = {
    "cute": Dsl(
        "CuTe DSL",
        ("nvidia-cutlass-dsl",),
        ("torch", "apache-tvm-ffi"),
        compilers=(
            *("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-core"),
            *("nvidia-cutlass-dsl-libs-cu12", "apache-tvm-ffi", "nvidia-cuda-nvdisasm"),
        ),
    ),
    "cutile": Dsl(
        "cuTile",
        ("cuda-tile", "nvidia-cuda-tileiras"),
        ("torch", "cuda-bindings"),
        unchecked=("unwaited",),
        simulation_packages=("torch", "cuda-bindings"),
        compilers=("cuda-tile", "nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-nvdisasm"),
    ),
    "torch": Dsl(
        "PyTorch", (), ("torch",), "PyTorch's own kernels come with its library: there is no build to simulate"
    ),
    "cuda": Dsl(
        "CUDA C++", (), ("torch",), "its kernels come compiled with their package: there is no build to simulate"
    ),
    "cute_jit": Dsl(
        "CuTe DSL, by its package",
        (),
        ("torch",),
        "its kernels are compiled by their package at the first call: there is no build to simulate",
    ),
}
PEERS = ("cuda", "cute_jit")  # kernels that a package of the machine brings along
COMPARED = ("cutile", "cute")  # the two that the experiment compares; the others are there to be compared with
UNKNOWN = "unknown"  # that of a kernel which cannot be loaded
