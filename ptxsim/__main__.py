"""`python -m ptxsim FOLDER --arg ...`: run a compiled kernel folder by hand.

FOLDER holds build.json (with the exported function's name), one .ptx and the exported object. Arguments, in order:
  f16[256,64]            a tensor of random numbers; also bf16 f32 f64 e4m3 e5m2 i8 u8 i32 i64
  f16[128,64]:0,1        with its dimensions in this order of stride, the fastest dimension first (default: last first)
  f32[4,4]=nan           filled: zeros, ones, nan, arange or a number
  *bf16[4,1024]          passed as a raw pointer
  int:4  float:0.5  none
Exit status: 0 without findings, 1 with findings, 2 when it could not be simulated.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from . import CaptureError, Module, Pointer, PtxError, Result, Tensor, capture, run
from .run import DEFAULT_CHECKS
from .schedule import NAMES

_TENSOR = re.compile(r"(\*?)(\w+)\[([\d,]*)\](?::([\d,]+))?(?:=(\S+))?$")
_TORCH = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "i64": "int64",
}


def argument(text: str, number: int) -> Any:
    """One --arg as a value for capture. Raises ValueError naming what cannot be read."""
    if text == "none":
        return None
    if text.startswith("int:"):
        return int(text[4:], 0)
    if text.startswith("float:"):
        return float(text[6:])
    m = _TENSOR.match(text)
    if not m or m[2] not in _TORCH:
        raise ValueError(f"cannot read the argument «{text}»")
    import torch

    shape = tuple(int(x) for x in m[3].split(",") if x)
    order = [int(x) for x in m[4].split(",")] if m[4] else list(range(len(shape)))[::-1]
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"«{text}»: the order names every dimension once")
    dtype, fill = getattr(torch, _TORCH[m[2]]), m[5]
    x = torch.empty([shape[d] for d in reversed(order)])
    if fill is None:
        x = x.normal_() if dtype.is_floating_point else torch.randint(0, 4, x.shape)
    elif fill == "arange":
        x = torch.arange(x.numel()).reshape(x.shape)
    else:
        x.fill_(
            {"zeros": 0.0, "ones": 1.0, "nan": float("nan")}.get(fill)
            if fill in ("zeros", "ones", "nan")
            else float(fill)
        )
    place = {d: n for n, d in enumerate(reversed(order))}
    tensor = x.to(dtype).permute([place[d] for d in range(len(shape))]) if shape else x.to(dtype)
    name = f"argument {number}"
    return Pointer(tensor, name) if m[1] else Tensor(tensor, name=name)


def folder(path: Path) -> tuple[Path, Path, str]:
    """(object, ptx, function) of a build folder. Raises FileNotFoundError saying what is missing."""
    build = path / "build.json"
    if not build.exists():
        raise FileNotFoundError(f"{path} has no build.json: it is not a compiled kernel folder")
    record = json.loads(build.read_text())
    function = record.get("function") or next(iter(record.get("symbols") or []), None)
    objects, texts = sorted(path.glob("*.o")), sorted(path.glob("*.ptx"))
    if not function or len(objects) != 1 or len(texts) != 1:
        raise FileNotFoundError(
            f"{path} needs a function name in build.json, one .o and one .ptx "
            f"(found {function}, {len(objects)} and {len(texts)})"
        )
    return objects[0], texts[0], function


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ptxsim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--arg", action="append", default=[], metavar="SPEC", help="an argument of the function, in order"
    )
    parser.add_argument("--schedule", choices=NAMES, default="random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checks", default=",".join(DEFAULT_CHECKS), help="comma-separated; empty for none")
    parser.add_argument("--trace", action="store_true", help="a line per block and completion, on stderr")
    parser.add_argument("--track", action="store_true", help="count global bytes touched once")
    parser.add_argument("--json", type=Path, help="write findings and counts here")
    return parser


def _run(options: argparse.Namespace) -> Result:
    """Capture and run what the command line names, with a line per launch on stdout."""
    obj, text, function = folder(options.folder)
    args = [argument(a, n) for n, a in enumerate(options.arg)]
    launches = capture(obj, function, args, Module.from_file(text))
    for x in launches:
        shape = f"grid {x.grid}, block {x.block}, cluster {x.cluster}"
        print(f"launch {x.name[:72]}: {shape}, {x.dynamic_shared} B shared")
    return run(
        launches,
        options.schedule,
        options.seed,
        checks=[c for c in options.checks.split(",") if c],
        trace=(lambda line: print(line, file=sys.stderr)) if options.trace else None,
        track=options.track,
    )


def _show(result: Result) -> None:
    for f in result.findings:
        print(f"{f}{f' ({f.count} times)' if f.count > 1 else ''}")
    for n, c in enumerate(result.counts):
        print(
            f"launch {n}: {c.warp_instructions} warp instructions, {c.mma_flops} MMA FLOPs, {c.tma_bytes} TMA bytes, "
            f"{c.global_read_bytes} bytes read and {c.global_write_bytes} written, {c.barrier_waits} barrier waits"
        )
    print(f"schedule {result.schedule}, seed {result.seed}, {result.seconds:.1f} s: {len(result.findings)} findings")


def _record(result: Result) -> dict[str, Any]:
    return {
        "schedule": result.schedule,
        "seed": result.seed,
        "seconds": result.seconds,
        "findings": [f.__dict__ for f in result.findings],
        "counts": [c.as_dict() for c in result.counts],
    }


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        result = _run(options)
    except (CaptureError, PtxError, FileNotFoundError, ValueError) as error:
        print(f"ptxsim: {error}", file=sys.stderr)
        return 2
    _show(result)
    if options.json:
        options.json.write_text(json.dumps(_record(result), indent=1))
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
