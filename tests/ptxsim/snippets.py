"""PTX kernels made of snippets, and their runs."""

from __future__ import annotations

import ptxsim

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def kernel_text(body: str, params: int = 2, shared: int = 0, registers: str = "") -> str:
    """A module with one kernel `k` of `params` 64-bit parameters p0, p1, ... around `body`."""
    args = ", ".join(f".param .u64 p{n}" for n in range(params))
    extern = ".extern .shared .align 1024 .b8 dyn[];\n"
    return (
        f"{HEAD}{extern}.visible .entry k({args})\n{{\n.reg .pred %p<40>;\n.reg .b16 %h<40>;\n.reg .b32 %r<80>;\n"
        f".reg .b64 %d<80>;\n.reg .b128 %q<4>;\n{registers}\n{body}\nret;\n}}\n"
    )


def run_kernel(
    body: str,
    *args,
    threads: int = 32,
    grid: tuple = (1,),
    shared: int = 0,
    cluster: tuple = (1,),
    schedule: str = "random",
    seed: int = 0,
    checks: tuple = (),
    registers: str = "",
) -> ptxsim.Result:
    """Run a kernel made of `body` over the given arguments."""
    module = ptxsim.Module.from_text(kernel_text(body, len(args), shared, registers))
    launch = ptxsim.launch(module, "k", grid, (threads,), args, dynamic_shared=shared, cluster=cluster)
    return ptxsim.run(launch, schedule=schedule, seed=seed, checks=checks)
