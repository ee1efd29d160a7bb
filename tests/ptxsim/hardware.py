"""Differential against a GPU.

The same sm_90a PTX and inputs on the GPU and in ptxsim.

On the GPU machine (needs numpy, ptxsim and the driver's libcuda; the driver compiles the PTX, or a cubin is carried):
`hardware.py ops` runs a generated program per ordinary opcode and compares every bit of every buffer, or units in the
last place where the instruction is an approximation; `hardware.py products` does the same with single matrix products
(products.py); `hardware.py kernels FILE` repeats whole kernels that `recordings.py FILE` ran in ptxsim. A line per
program; the exit status is the number of differences, at most 99. `hardware.py summary FOLDER FILE... JSON` (anywhere)
puts what there is of ops.txt, products.txt and kernels.txt in a folder, and the opcodes of recordings, into
tests/ptxsim/h200.json.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import itertools
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import access_programs
import numpy as np
import programs
import warp_programs
from gpu_driver import Gpu, distance, floats, same_nan
from products import PRODUCTS, SPREADS, Product

import ptxsim

PROGRAMS = [*programs.PROGRAMS, *access_programs.PROGRAMS, *warp_programs.PROGRAMS]


def simulate(program: programs.Program) -> tuple[list[np.ndarray], list]:
    """(inputs and result after a run in ptxsim, findings)."""
    buffers = [*program.sources(), program.poison()]
    module = ptxsim.Module.from_text(program.ptx())
    launch = ptxsim.launch(module, "k", (1,), (programs.N,), (*buffers, programs.BLOCK))
    return buffers, ptxsim.run(launch).findings


def on_gpu(gpu: Gpu, program: programs.Program) -> list[np.ndarray]:
    """The same buffers after a run on the GPU."""
    buffers = [*program.sources(), program.poison()]
    addresses = [gpu.upload(x) for x in buffers]
    params = b"".join(a.to_bytes(8, "little") for a in addresses)
    end = -(-len(params) // 16) * 16
    sizes = [*((8 * k, 8) for k in range(len(addresses))), (end, len(programs.BLOCK))]
    function = gpu.kernel(program.ptx().encode(), "k")
    gpu.launch(function, (1, 1, 1), (programs.N, 1, 1), 0, params.ljust(end, b"\0") + programs.BLOCK, sizes)
    for address, data in zip(addresses, buffers, strict=True):
        gpu.download(address, data)
    gpu.free()
    return buffers


def compare(program: programs.Program, theirs: list[np.ndarray], own: list[np.ndarray]) -> tuple[str, bool]:
    """(what is to be reported, whether it is within the program's tolerance)."""
    kinds, message, good = [*program.kinds, program.out], [], True
    for n, (a, b) in enumerate(zip(theirs, own, strict=True)):
        last = n == len(kinds) - 1
        where, ulps = distance(a, b, kinds[n], program.absolute if last else 0.0)
        past = where[ulps > (program.ulps if last else 0)]
        if len(where):
            worst = float(ulps.max())
            message.append(f"{len(where)} of {a.size} differ, at most {worst:.3g} ulp")
        if len(past):
            good, at = False, int(past[0])
            at //= 2 if kinds[n].endswith("x2") else 1
            inputs = [hex(int(x.view(f"u{x.itemsize}")[at])) for x in program.sources()]
            message.append(
                f"{len(past)} beyond {program.ulps:g} ulp, first at {at} of {'the result' if last else n}: "
                f"GPU {a[at]!r}, here {b[at]!r}, inputs {', '.join(inputs)}"
            )
    return "; ".join(message), good


def ops() -> int:
    """Run every program on the GPU and here.

    Returns how many differ beyond what is allowed.
    """
    gpu, bad = Gpu(), 0
    for program in PROGRAMS:
        try:
            own, findings = simulate(program)
            text, good = compare(program, on_gpu(gpu, program), own)
            good, text = good and not findings, text + "".join(str(f) for f in findings[:1])
        except (RuntimeError, ptxsim.PtxError) as error:
            text, good = f"ERROR {error}", False
        bad += not good
        print(f"{'equal  ' if good and not text else 'within ' if good else 'DIFFERS'} {program.name} {text}".rstrip())
    print(f"{len(PROGRAMS) - bad} of {len(PROGRAMS)} programs agree on {gpu.describe()}")
    return bad


def simulated_product(product: Product, spread: int | str, seed: int) -> np.ndarray:
    """Words of D (128, 8) in ptxsim."""
    buffers = [*product.matrices(spread, seed), np.zeros((128, 8), np.uint32)]
    ptxsim.run(ptxsim.launch(ptxsim.Module.from_text(product.ptx()), "k", (1,), (128,), tuple(buffers)))
    return buffers[3]


def products() -> int:
    """Run each product of products.py on GPU and simulator with several exponent spreads."""
    gpu, bad = Gpu(), 0
    for product in PRODUCTS:
        function, wrong, count = gpu.kernel(product.ptx().encode(), "k"), 0, 0
        digest = hashlib.sha256()
        for spread, seed in itertools.product(SPREADS, range(3)):
            theirs = [*product.matrices(spread, seed), np.zeros((128, 8), np.uint32)]
            addresses = [gpu.upload(x) for x in theirs]
            params = b"".join(x.to_bytes(8, "little") for x in addresses)
            gpu.launch(function, (1, 1, 1), (128, 1, 1), 0, params, [(8 * k, 8) for k in range(4)])
            gpu.download(addresses[3], theirs[3])
            gpu.free()
            own = simulated_product(product, spread, seed)
            where, _ = distance(theirs[3].reshape(-1), own.reshape(-1), product.accumulator)
            wrong, count = wrong + len(where), count + 1024
            digest.update(same_nan(theirs[3].reshape(-1), product.accumulator).tobytes())
        bad += bool(wrong)
        words = f"{wrong} of {count} elements, digest {digest.hexdigest()[:16]}"
        print(f"{'DIFFERS' if wrong else 'equal  '} {product.name}: {words}")
    print(f"{len(PRODUCTS) - bad} of {len(PRODUCTS)} products agree on {gpu.describe()}")
    return bad


def kernels(path: Path, first: int = 0) -> int:
    """Repeat recorded kernels on the GPU.

    Pointers in parameters and descriptors are moved to the GPU's buffers.
    """
    gpu, bad = Gpu(), 0
    for number, case in enumerate(pickle.loads(gzip.decompress(path.read_bytes()))[first:], first):
        moved = [(address, data.nbytes, gpu.upload(data)) for _, address, data, _ in case["before"]]
        try:
            for name, grid, block, cluster, shared, params, sizes in case["launches"]:
                words = np.frombuffer(params.ljust(-(-len(params) // 8) * 8, b"\0"), np.uint64).copy()
                for host, size, device in moved:
                    inside = (words >= np.uint64(host)) & (words < np.uint64(host + size))
                    words[inside] += np.uint64((device - host) % (1 << 64))
                gpu.launch(gpu.kernel(case["image"], name), grid, block, shared, words.tobytes(), sizes, cluster)
        except RuntimeError as error:
            print(f"ERROR   {case['name']}: {error}", flush=True)  # the context is lost: go on in another process
            rest = [sys.executable, __file__, "kernels", str(path), str(number + 1)]
            return bad + 1 + subprocess.run(rest).returncode
        for (label, _, data, kind), own, (_, _, device) in zip(case["before"], case["after"], moved, strict=True):
            theirs = np.zeros_like(data)
            gpu.download(device, theirs)
            text, good = verdict(theirs, own, kind, case["tolerance"])
            changed = not np.array_equal(data, own) or not np.array_equal(data, theirs)
            bad += not good
            if changed or not good:
                print(
                    f"{'equal  ' if good and not text else 'within ' if good else 'DIFFERS'} {case['name']} {label}:"
                    f" {text}"
                )
        gpu.free()
    print(f"{bad} buffers differ on {gpu.describe()}")
    return bad


def verdict(theirs: np.ndarray, own: np.ndarray, kind: str, tolerance: float) -> tuple[str, bool]:
    """(difference in words, whether it is allowed).

    `tolerance` is of the largest magnitude in the buffer.
    """
    if kind not in ("f16", "bf16", "f32"):
        n = int(np.count_nonzero(theirs != own))
        return (f"{n} of {theirs.size} bytes differ" if n else ""), not n
    where, _ = distance(theirs, own, kind)
    if not len(where):
        return "", True
    a, b = floats(same_nan(theirs, kind), kind), floats(same_nan(own, kind), kind)
    finite = np.isfinite(a) & np.isfinite(b)
    scale = float(np.abs(a[finite]).max())
    with np.errstate(invalid="ignore"):
        worst = float(np.abs(a - b)[finite].max()) / scale
    good = worst <= tolerance and bool((finite | (same_nan(theirs, kind) == same_nan(own, kind))).all())
    return f"{len(where)} of {a.size} differ, by {worst:.2e} of the largest at most", good


def summary(logs: Path, recordings: list[Path], target: Path) -> int:
    """Write the contents of the logs and the recordings' opcodes as JSON.

    What no log says stays as it exists, with its date.
    """
    data = json.loads(target.read_text()) if target.exists() else {"dates": {}, "kernels": {}, "opcodes": []}
    for part in ("ops", "products", "kernels"):
        log = logs / f"{part}.txt"
        if log.exists():
            MESSAGE[part](data, log.read_text().splitlines())
            data["dates"][part] = datetime.date.today().isoformat()
    for path in recordings:
        for case in pickle.loads(gzip.decompress(path.read_bytes())):
            for kernel in ptxsim.Module.from_text(case["image"].decode()).kernels.values():
                data["opcodes"] = sorted({*data["opcodes"], *(x.op for x in kernel.instructions)})
    target.write_text(json.dumps(data, indent=1) + "\n")
    return 0


def message_of_programs(data: dict, lines: list[str]) -> None:
    data["programs"], data["device"] = lines[-1].split(" on ", 1)
    data["approximate"] = {
        x[8:].split(" {d}")[0].split()[0]: x.split("; ")[-1].split(") ")[-1] for x in lines if x[:6] == "within"
    }


def message_of_products(data: dict, lines: list[str]) -> None:
    data["products"] = {x[8:].split(": ")[0]: x.split(": ")[1] for x in lines[:-1]}


def message_of_kernels(data: dict, lines: list[str]) -> None:
    buffers: dict[str, dict[str, str]] = {}
    for line in lines:
        verdict, rest = line[:7].strip(), line[8:]
        if verdict in ("equal", "within", "DIFFERS", "ERROR"):
            name, message = rest.rsplit(": ", 1) if ": " in rest else (rest.rstrip(": "), "")
            kernel, buffer = re.fullmatch(r"(.*?) (argument \d+|\w+)", name).groups()
            buffers.setdefault(kernel, {})[buffer] = message or verdict
    data["kernels"] |= buffers


MESSAGE = {"ops": message_of_programs, "products": message_of_products, "kernels": message_of_kernels}


if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "ops":
        sys.exit(min(ops(), 99))
    if command == "kernels" and len(sys.argv) > 2:
        sys.exit(min(kernels(Path(sys.argv[2]), int(*sys.argv[3:])), 99))
    if command == "products":
        sys.exit(min(products(), 99))
    if command == "summary" and len(sys.argv) > 4:
        sys.exit(summary(Path(sys.argv[2]), [Path(x) for x in sys.argv[3:-1]], Path(sys.argv[-1])))
    sys.exit(__doc__)
