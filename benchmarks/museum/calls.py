"""Calls of third-party kernels, as GPU tests; __main__.py runs them with PTXSIM=1.

The environment names the folder of the unpacked wheel (WHEEL) and an added line of source (ADDED: "TEXT BEFORE TEXT").
Modules that the kernels import and do not need are replaced by stubs.
"""

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

WHEEL = Path(os.environ.get("WHEEL", "."))


def stub(name: str, path: Iterable[Path] = (), **values: Any) -> None:
    """Put a module with these values, and parents without any, into sys.modules."""
    if "." in name and name.rpartition(".")[0] not in sys.modules:
        stub(name.rpartition(".")[0])
    module = types.ModuleType(name)
    module.__path__ = [str(x) for x in path]
    module.__dict__.update(values)
    sys.modules[name] = module


def changed(path: Path, folder: Path) -> Path:
    """Return the file, or a copy with the added line."""
    added, _, before = os.environ.get("ADDED", "").partition(" BEFORE ")
    if not added:
        return path
    lines = path.read_text().split("\n")
    (at,) = (n for n, line in enumerate(lines) if line.strip().startswith(before))
    indent = lines[at][: -len(lines[at].lstrip())]
    copy = folder / path.name
    copy.write_text("\n".join([*lines[:at], indent + added, *lines[at:]]))
    return copy


def test_sglang_gemm(tmp_path: Path) -> None:
    """A product by two CTAs, 128 x 8 x 256."""
    for name in ("sglang.kernel_api_logging", "sglang.kernels.kernel_api_logging"):
        stub(name, debug_kernel_api=lambda function=None, *_, **__: function)
    cores, right = (lambda *_: 148), (lambda *_: True)
    stub("sglang.srt.utils", get_device_sm=lambda: 100, get_device_core_count=cores, is_sm100_supported=right)
    stub("sglang.srt.utils.common", direct_register_custom_op=lambda *_, **__: None)
    path = changed(WHEEL / "sglang/kernels/ops/gemm/cutedsl_bf16_gemm.py", tmp_path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, b = (torch.randn(rows, 256, device="cuda").bfloat16() for rows in (8, 128))
    out = torch.full((8, 128), float("nan"), device="cuda").bfloat16()
    module._run_tgv(a, b.t(), None, out, False, 16)


def test_flashinfer_mla() -> None:
    """FP8 MLA decode of three requests with 128 keys, by one cluster."""
    import cutlass

    stub("flashinfer.utils", device_support_pdl=lambda *_: False, get_compute_capability=lambda *_: (10, 0))
    stub(
        "flashinfer.cute_dsl.utils",
        _as_cute_dsl_workspace_i8=lambda x: x.view(torch.int8),
        cute_dsl_compile_arch=lambda *_: "sm_100a",
        get_max_active_clusters=lambda *_: 1,
        get_num_sm=lambda *_: 2,
        torch_to_cutlass_dtype={torch.float8_e4m3fn: cutlass.Float8E4M3FN, torch.bfloat16: cutlass.BFloat16}.get,
    )
    package = "flashinfer.cute_dsl.attention.monolithic"
    stub(package, [WHEEL / package.replace(".", "/")])
    decode = importlib.import_module(f"{package}.mla_decode").cute_dsl_mla_decode
    query = torch.randn(3, 1, 128, 576, device="cuda").to(torch.float8_e4m3fn)
    keys = torch.randn(3, 128, 576, device="cuda").to(torch.float8_e4m3fn)
    table = torch.arange(3, dtype=torch.int32, device="cuda").reshape(3, 1)
    lengths = torch.full((3,), 128, dtype=torch.int32, device="cuda")
    workspace = torch.empty(1 << 24, dtype=torch.int8, device="cuda")
    decode(query, keys, workspace, 512, 64, table, lengths, 128, 576**-0.5, is_var_seq=False)
