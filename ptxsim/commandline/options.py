"""Command-line options and help text."""

import argparse
from pathlib import Path
from typing import NoReturn

from ..core.adversarial import RUNS
from ..core.processes import VARIABLE
from ..core.run import CHECKS, DEFAULT_CHECKS
from ..core.schedule import DEFAULT, NAMES
from .reports import installed_version

HELP = """Run a compiled CuTe DSL kernel on this machine's CPU, look for faults, and compare what it computes.

FOLDER holds one object that CuTe DSL exported (export_to_c, compiled with --enable-tvm-ffi) and the .ptx of the same
compilation (--keep-ptx); a build.json in FOLDER may name the function. `ptxsim FOLDER --signature` prints what the
function takes. A stream argument may be omitted, or passed as `stream`: launches run in order.

arguments, in order, each with an optional NAME= prefix (default: the parameter's name):
  f16[256,64]            a tensor, its last dimension contiguous, of random numbers (see --input-seed)
                         types: f16 bf16 f32 f64 e4m3 e5m2 e8m0 e2m1 i8 u8 i16 u16 i32 u32 i64 u64 bool
  f16[128,64]:0,1        its dimensions by stride, fastest first
  f16[128,64]@72,1       its strides, in elements
  f16[128,64]%16         aligned to exactly 16 bytes (default 256)
  f32[4,4]=nan           filled: random, uniform, integers, arange, identity, zeros, ones, nan or a number
  f16[128,64]=a.npy      filled from a file of its shape, or of as many bytes (for types that numpy lacks)
  a.npy  a.npz:x  a.pt   a file's array in its own type (.pt and .pth need torch)
  *bf16[4,1024]          any of these, passed as a raw pointer
  i64[2]=&x,&y           addresses of other tensors, which --also may define
  int:4  float:0.5  bool:true  none  stream

exit status: 0 no fault, 1 a finding or a failed comparison, 2 the kernel could not be run."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (ptxsim -h explains the options)\n")


def parser() -> argparse.ArgumentParser:
    """Return the command-line parser."""
    out = Parser("ptxsim", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--version", action="version", version=f"ptxsim {installed_version()}")
    out.add_argument("folder", type=Path, help="a folder with a compiled kernel, or its object (.o)")
    out.add_argument("--arg", action="append", default=[], metavar="SPEC", help="an argument of the function, in order")
    _add_build(out.add_argument_group("build"))
    _add_run(out.add_argument_group("run"))
    _add_results(out.add_argument_group("results"))
    return out


def _add_build(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--signature", action="store_true", help="print the function's parameters and stop")
    group.add_argument("--function", metavar="NAME", help="the exported function, if there are several")
    group.add_argument("--ptx", type=Path, metavar="FILE", help="the PTX, if it is in another folder")
    group.add_argument(
        "--also", action="append", default=[], metavar="NAME=SPEC", help="a tensor reached only through addresses"
    )
    group.add_argument("--input-seed", type=int, default=0, metavar="N", help="seed of random contents (default 0)")
    group.add_argument("--sm-count", type=int, default=148, metavar="N", help="number of SMs that the host code sees")


def _add_run(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--schedule",
        default="random",
        metavar="NAME",
        help=f"order of threads, and completion of copies and products: {', '.join(NAMES)}; all: the {len(DEFAULT)} "
        "default ones; search: adversarial ones until a run fails, each of which delays an arrival, a wait, a copy, "
        "a product or some warps; hold:…: one of these by its name",
    )
    group.add_argument("--runs", type=int, metavar="N", help=f"budget of a search (default {RUNS}, without --seconds)")
    group.add_argument("--seconds", type=float, metavar="S", help="budget of a search, in seconds")
    group.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help=f"how many processes run the schedules of `all` or `search`, or the clusters of another schedule "
        f"(default {VARIABLE}, else one per available CPU)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the schedule (default 0)")
    group.add_argument(
        "--checks",
        default=",".join(DEFAULT_CHECKS),
        metavar="LIST",
        help=f"comma-separated, of {', '.join(CHECKS)}; empty for none (default %(default)s)",
    )
    group.add_argument(
        "--waive",
        nargs=2,
        action="append",
        default=[],
        metavar=("PATTERN", "REASON"),
        help="do not count findings whose text the regular expression matches",
    )
    group.add_argument(
        "--sass", action="store_true", help="check that the cubin's arrivals come after tensor-memory loads, as in PTX"
    )
    group.add_argument("--trace", action="store_true", help="a line per block and completion, on stderr")
    group.add_argument("--track", action="store_true", help="count global bytes touched once and bank conflicts")
    group.add_argument("--progress", action="store_true", help="show progress, even if stderr is not a terminal")


def _add_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="expected content of a tensor after the run (default: the last tensor argument)",
    )
    group.add_argument(
        "--tolerance",
        type=float,
        default=1e-2,
        metavar="T",
        help="allowed difference: T + T * |expected| (default %(default)s)",
    )
    group.add_argument(
        "--save", action="append", default=[], metavar="NAME=FILE", help="write a tensor to a .npy file afterwards"
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE")
    group.add_argument("--sarif", type=Path, metavar="FILE", help="write findings to FILE as SARIF 2.1.0")
    group.add_argument("--junit", type=Path, metavar="FILE", help="write a test case per run to FILE as JUnit XML")
    group.add_argument("--annotations", action="store_true", help="print findings as annotations of GitHub Actions")
    group.add_argument(
        "--predict", metavar="DEVICE", help="predict the time on a device: b200, h100, h200 or a device file"
    )
    group.add_argument("--clock-mhz", type=float, metavar="N", help="the SM clock for --predict")
    group.add_argument("--cold", action="store_true", help="--predict for a single call after an L2 flush")
