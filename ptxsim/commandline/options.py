"""Command-line options and help text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from ..core.adversarial import RUNS
from ..core.run import CHECKS, DEFAULT_CHECKS
from ..core.schedule import DEFAULT, NAMES

HELP = """Run a compiled CuTe DSL kernel on this machine's CPU, look for faults, and compare what it computes.

FOLDER holds one object that CuTe DSL exported (export_to_c, compiled with --enable-tvm-ffi) and the .ptx of the same
compilation (--keep-ptx); a build.json beside them may name the function. `ptxsim FOLDER --signature` prints what the
function takes. A stream parameter may be left out, or be given as `stream`: launches run in order.

arguments, in order, each perhaps with NAME= before it (by default the parameter's own name):
  f16[256,64]            a tensor, its last dimension contiguous, of random numbers (the same for the same --input-seed)
                         types: f16 bf16 f32 f64 e4m3 e5m2 e8m0 e2m1 i8 u8 i16 u16 i32 u32 i64 u64 bool
  f16[128,64]:0,1        its dimensions in this order of stride, the fastest first
  f16[128,64]@72,1       its strides, in elements
  f16[128,64]%16         at a multiple of 16 bytes and of no more (by default of 256)
  f32[4,4]=nan           filled: random, uniform, integers, arange, identity, zeros, ones, nan or a number
  f16[128,64]=a.npy      filled from a file: of its shape, or of as many bytes (for types that numpy lacks)
  a.npy  a.npz:x  a.pt   what a file holds, in the file's own type (.pt and .pth need torch)
  *bf16[4,1024]          any of these, passed as a raw pointer
  i64[2]=&x,&y           addresses of other tensors, which --also may define
  int:4  float:0.5  bool:true  none  stream

exit status: 0 nothing was found, 1 something was (a finding, or a comparison that failed), 2 it could not be run."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (ptxsim -h explains the options)\n")


def parser() -> argparse.ArgumentParser:
    """Return the command-line parser."""
    out = Parser("ptxsim", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("folder", type=Path, help="a folder with a compiled kernel, or its object (.o)")
    out.add_argument("--arg", action="append", default=[], metavar="SPEC", help="an argument of the function, in order")
    _add_build(out.add_argument_group("what is run"))
    _add_run(out.add_argument_group("how it is run"))
    _add_results(out.add_argument_group("what comes of it"))
    return out


def _add_build(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--signature", action="store_true", help="print the function's parameters and stop")
    group.add_argument("--function", metavar="NAME", help="the exported function, where there are several")
    group.add_argument("--ptx", type=Path, metavar="FILE", help="the PTX, where it lies elsewhere")
    group.add_argument(
        "--also", action="append", default=[], metavar="NAME=SPEC", help="a tensor reached through addresses only"
    )
    group.add_argument("--input-seed", type=int, default=0, metavar="N", help="for random contents (default 0)")
    group.add_argument("--sm-count", type=int, default=148, metavar="N", help="multiprocessors that the host code sees")


def _add_run(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--schedule",
        default="random",
        metavar="NAME",
        help=f"who goes next, and when copies and products complete: {', '.join(NAMES)}; all: the {len(DEFAULT)} "
        "default ones; search: one after another that holds back an arrival, a wait, a copy, a product or some warps, "
        "until something is wrong; hold:…: one of these, as a search has named it",
    )
    group.add_argument("--runs", type=int, metavar="N", help=f"budget of a search (default {RUNS}, without --seconds)")
    group.add_argument("--seconds", type=float, metavar="S", help="budget of a search, in seconds")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of the schedule (default 0)")
    group.add_argument(
        "--checks",
        default=",".join(DEFAULT_CHECKS),
        metavar="LIST",
        help=f"of {', '.join(CHECKS)}, with commas between; empty for none (default %(default)s)",
    )
    group.add_argument("--trace", action="store_true", help="a line per block and completion, on stderr")
    group.add_argument("--track", action="store_true", help="count global bytes touched once and bank conflicts")
    group.add_argument("--progress", action="store_true", help="tell how far it is, also where stderr is no terminal")


def _add_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="what a tensor has to hold afterwards (without a name: the last tensor argument)",
    )
    group.add_argument(
        "--tolerance",
        type=float,
        default=1e-2,
        metavar="T",
        help="allowed is a difference of T + T times the expected value (default %(default)s)",
    )
    group.add_argument(
        "--save", action="append", default=[], metavar="NAME=FILE", help="write a tensor to a .npy file afterwards"
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="write all results here")
    group.add_argument(
        "--predict", metavar="DEVICE", help="tell how long it would take on a card: b200, h100, h200 or a device file"
    )
    group.add_argument("--clock-mhz", type=float, metavar="N", help="the SM clock for --predict")
    group.add_argument("--cold", action="store_true", help="--predict for a call that finds nothing in L2")
