"""NVIDIA's CUTLASS MLA decode kernels: compiled for SM100, and their launches, without an SM100 GPU."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.stages.fetch import fetch
from cutesnake.stages.load import cute as cute_load
from cutesnake.stages.load.build import LoadedBuild
from kernels.mla_decode.cutlass import adapter as cutlass_adapter
from kernels.mla_decode.cutlass.adapter import split_count
from kernels.mla_decode.operator import Workload
from kernels.upstream.examples import FOLDER

UPSTREAM = ROOT / "kernels" / "upstream.yaml"
PROCESSORS = 148  # of a B200


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"dtype": "bf16"}, "computes in fp16 only"),
        ({"heads": 64}, "128 heads"),
        ({"latent": 256}, "latent 512"),
        ({"query_tokens": 5, "causal": False}, "1 to 4 query tokens"),
        ({"query_tokens": 2}, "does not mask among several query tokens"),
        ({"query_tokens": 2, "causal": False}, None),
        ({"kv_length": 1}, None),
        ({"paged": True}, None),
    ],
)
def test_what_the_example_computes(values: dict, reason: str | None) -> None:
    result = load_kernel("mla_decode", "cutlass_fp16").supports(
        Workload(**{"batch": 2, "kv_length": 100, "dtype": "fp16", **values})
    )
    assert (result is None) if reason is None else (reason in result)


def test_fp8_pages_come_in_pairs() -> None:
    assert [Workload(1, n, "fp8").pages_per_request for n in (1, 64, 65, 128, 257, 1024)] == [2, 2, 2, 2, 6, 16]
    assert [Workload(1, n, "fp16").pages_per_request for n in (1, 64, 65, 128, 257, 1024)] == [1, 1, 2, 2, 5, 16]


def test_an_odd_page_table_is_refused_by_the_fp8_kernel() -> None:
    workload, operator = Workload(1, 100, "fp8"), load_operator("mla_decode")
    inputs, outputs = operator.make_inputs(workload, 0), operator.make_outputs(workload)
    inputs.page_table = inputs.page_table[:, :1]
    with pytest.raises(ValueError, match="must be even, not 1"):
        cutlass_adapter.bind(SimpleNamespace(params={"split": False}), workload, inputs, outputs)


@pytest.mark.parametrize(("batch", "build"), [(1, "fp16_split"), (74, "fp16_direct"), (128, "fp16_direct")])
def test_a_full_device_does_without_splits(batch: int, build: str) -> None:
    variants = load_kernel("mla_decode", "cutlass_fp16").variants(Workload(batch, 4096, "fp16"), "sm_100a")
    assert variants[0].id == build


def test_the_keys_are_split_for_the_card_at_hand() -> None:
    # On a simulated GPU of four multiprocessors a CTA has several tiles, as on a GPU with many requests.
    seen: list[int] = []

    def opened(folder: Path, function: str) -> Callable[..., None]:
        return lambda *arguments: seen.append(arguments[7])

    workload, operator = Workload(1, 321, "fp16"), load_operator("mla_decode")  # three tiles
    inputs, outputs = operator.make_inputs(workload, 0), operator.make_outputs(workload)
    for processors in (4, PROCESSORS):
        with cute_load.opened_by(opened, processors):
            params = {"split": True, "persistent": True, "max_active_clusters": 74}
            made = SimpleNamespace(params=params, symbols=("split", "reduce"), launch=lambda *values: values)
            made.function = lambda: opened(Path(), "")
            cutlass_adapter.bind(made, workload, inputs, outputs)(0)
    assert seen == [2, 3]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with the examples fetched."""
    place = tmp_path_factory.mktemp("upstream")
    fetch("flashinfer-python", place / "results/fetch/flashinfer-python", UPSTREAM)
    return place


def capture(folder: Path, function: str) -> Callable[..., None]:
    """Opens a build for launch capture.

    The object's own host code runs, the launches are kept.
    """
    import torch

    import ptxsim

    module = ptxsim.Module.from_file(folder / "kernel.ptx")

    def call(*arguments: object) -> None:
        stream = ptxsim.Pointer(torch.zeros(1))
        call.launches = ptxsim.capture(folder / "kernel.o", function, (*arguments[:-1], stream), module)

    return call


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "dtype", "batch"),  # batch 1 splits the keys, 128 does not
    [
        *[("sm_100a", dtype, batch) for dtype in ("fp16", "fp8") for batch in (1, 128)],
        ("sm_103a", "fp16", 1),
        ("sm_103a", "fp8", 128),
    ],
)
def test_build(dtype: str, batch: int, target: str) -> None:
    kernel = load_kernel("mla_decode", f"cutlass_{dtype}")
    for variant in kernel.variants(Workload(batch, 4096, dtype), target):
        folder = build("mla_decode", f"cutlass_{dtype}", target, variant)
        entry = record.plain(record.read("compile", folder / "build.json"))
        assert entry["status"] == "ok", entry["reason"]
        assert len(entry["symbols"]) == (2 if batch == 1 else 1)
        facts = {"block": [384, 1, 1], "cluster": [2, 1, 1], "dynamic_shared_bytes": 232448}
        assert entry["launch"][entry["symbols"][0]] == facts
        ptx, sass = (folder / "kernel.ptx").read_text(), (folder / "kernel.sass").read_text()
        assert ptx.count("tcgen05.mma.cta_group::2") >= 50
        assert ptx.count("cp.async.bulk.tensor") >= 50
        assert "LDL" not in sass and "STL" not in sass  # no spills


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3, 128])
@pytest.mark.parametrize("dtype", ["fp16", "fp8"])
def test_launches_are_those_that_the_build_makes(dtype: str, batch: int) -> None:
    # What a runner reports, and where its TMA descriptors point, against the launches of the object itself.
    from ptxsim.memory import tensor_map as tensormap

    kernel, operator = load_kernel("mla_decode", f"cutlass_{dtype}"), load_operator("mla_decode")
    workload = Workload(batch, 1000, dtype, paged=True)
    inputs, outputs = operator.make_inputs(workload, 0), operator.make_outputs(workload)
    row = inputs.q.shape[-1] * inputs.q.element_size()  # bytes of a packed latent and rope
    latent = 512 * inputs.q.element_size()
    for variant in kernel.variants(workload, "sm_100a"):
        folder = build("mla_decode", f"cutlass_{dtype}", "sm_100a", variant)
        with cute_load.opened_by(capture, PROCESSORS):
            runner = kernel.bind(LoadedBuild(folder), workload, inputs, outputs)
        runner(0)
        made = runner.enqueue.function.launches
        assert [(m.name, m.grid, m.block, m.cluster, m.dynamic_shared) for m in made] == [
            (r.symbol, r.grid, r.block, r.cluster, r.dynamic_shared_bytes) for r in runner.launches
        ]
        attention = made[0]
        raw = [attention.params[p.offset :][:128] for p in attention.kernel.params if p.size == 128]
        maps = [tensormap.decode(bytes(descriptor)) for descriptor in raw]
        q, cache = inputs.q.data_ptr(), inputs.kv_cache.data_ptr()
        assert [m.address for m in maps] == [q, q + latent, cache, cache + latent, cache]
        assert {m.strides[1] for m in maps} == {row}  # read in place, nothing copied
        assert [m.sizes[0] for m in maps] == [512, 64, 512, 64, 512]


@pytest.mark.slow
def test_split_count_is_nvidias(place: Path) -> None:
    cases = [(b, q, k) for b in (1, 2, 7, 64, 128, 400) for q in (1, 4) for k in (1, 129, 4096, 65536)]
    script = f"""
import json
import os
from blackwell.mla.mla_decode_fp16 import BlackwellMultiHeadLatentAttentionForwardFP16 as fp16
from blackwell.mla.mla_decode_fp8 import BlackwellMultiHeadLatentAttentionForwardFP8 as fp8
print(json.dumps([[e.get_split_kv(b, q, k, (128, 128), 148) for e in (fp16, fp8)] for b, q, k in {cases}]))
"""
    environment = {**os.environ, "PYTHONPATH": str(place / "results/fetch/flashinfer-python" / FOLDER)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [[split_count(*case)] * 2 for case in cases]
