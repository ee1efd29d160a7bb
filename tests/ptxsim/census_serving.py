"""Calls of FlashInfer's and SGLang's kernels, as GPU tests, for test_census.py."""

from __future__ import annotations

import importlib
import os
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from census_calls import filled, time_limit  # noqa: F401  # the fixture applies to each call

SITE, TARGET = os.environ["SITE"], os.environ["CUTE_DSL_ARCH"].removeprefix("sm_")
os.environ["FLASHINFER_CUTE_DSL_DISABLE_CACHE"] = "1"  # its cache holds objects, which have no PTX


def put(name: str, path: bool = False, **values: Any) -> None:
    """Replace a module by a stub, or by a package without its __init__.py."""
    module = types.ModuleType(name) if path else MagicMock(__spec__=ModuleSpec(name, None))
    if path:
        module.__path__ = [f"{SITE}/{name.replace('.', '/')}"]
    vars(module).update(values)
    sys.modules[name] = module


for name in ("cudnn", "filelock", "ninja", "pynvml", "requests", "tabulate", "tqdm"):
    put(name)
for name in ("flashinfer", "sglang", "sglang.srt", "sglang.kernels", "sglang.kernels.jit", "sglang.kernels.ops"):
    put(name, path=True)
for name in ("attention", "gemm", "lora"):
    put(f"sglang.kernels.ops.{name}", path=True)
for name in ("sglang.srt.utils", "sglang.srt.utils.common", "sglang.kernels.jit.utils", "sglang.kernels.kda_kernels"):
    put(name, get_device_sm=lambda: int(TARGET[:-1]))
put("sglang.kernels.kernel_api_logging", debug_kernel_api=lambda function=None, **_: function)
other = {f"try_fused_{name}": lambda *_: None for name in ("norm_scale_shift", "scale_residual_norm_scale_shift")}
put("sglang.kernels.kda_kernels.norm_scale_shift_jit", **other)
importlib.import_module("flashinfer.cute_dsl")  # before norm, which would import it half-way
BLACKWELL = pytest.mark.skipif(TARGET.startswith("90"), reason="a kernel of sm_100")
HOPPER = pytest.mark.skipif(not TARGET.startswith("90"), reason="a kernel of sm_90")


def of(name: str) -> Any:
    return importlib.import_module(name)


def near(out: torch.Tensor, right: torch.Tensor, limit: float = 0.02) -> None:
    """Fail where an error exceeds this part of the largest value."""
    worst = (out.float() - right.float()).abs().max() / right.float().abs().max()
    assert worst <= limit, f"wrong output: error {worst:.3g} of the largest value"


def normed(x: torch.Tensor, weight: torch.Tensor, bias: float = 0.0) -> torch.Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (weight.float() + bias)


def fp8(*shape: int) -> torch.Tensor:
    return filled(*shape, dtype=torch.float32).to(torch.float8_e4m3fn)


def test_flashinfer_rmsnorm() -> None:
    x, weight = filled(5, 256), filled(256)
    near(of("flashinfer.norm").rmsnorm(x, weight), normed(x, weight))


def test_flashinfer_rmsnorm_of_heads() -> None:
    x, weight = filled(3, 4, 128), filled(128)
    near(of("flashinfer.norm").rmsnorm(x, weight), normed(x, weight))


def test_flashinfer_rmsnorm_by_a_cluster() -> None:
    x, weight = filled(2, 32768), filled(32768)
    near(of("flashinfer.norm").rmsnorm(x, weight), normed(x, weight))


def test_flashinfer_gemma_rmsnorm() -> None:
    x, weight = filled(5, 256), filled(256)
    near(of("flashinfer.norm").gemma_rmsnorm(x, weight), normed(x, weight, 1.0))


def test_flashinfer_rmsnorm_quant() -> None:
    x, weight, out = filled(5, 256), filled(256), fp8(5, 256)
    of("flashinfer.norm").rmsnorm_quant(out, x, weight, torch.tensor([0.1], device="cuda"))
    near(out, normed(x, weight) / 0.1, 0.07)


@pytest.mark.parametrize("name", ["fused_add_rmsnorm", "gemma_fused_add_rmsnorm"])
def test_flashinfer_add_rmsnorm(name) -> None:
    x, residual, weight = filled(5, 256), filled(5, 256), filled(256)
    total = x.float() + residual.float()
    getattr(of("flashinfer.norm"), name)(x, residual, weight)
    near(residual, total)
    near(x, normed(total, weight, float(name.startswith("gemma"))))


def test_flashinfer_add_rmsnorm_quant() -> None:
    x, residual, weight, out = filled(5, 256), filled(5, 256), filled(256), fp8(5, 256)
    total = x.float() + residual.float()
    of("flashinfer.norm").fused_add_rmsnorm_quant(out, x, residual, weight, torch.tensor([0.1], device="cuda"))
    near(out, normed(total, weight) / 0.1, 0.07)


def test_flashinfer_layernorm() -> None:
    x, weight, bias = filled(5, 256), filled(256, dtype=torch.float32), filled(256, dtype=torch.float32)
    near(of("flashinfer.norm").layernorm(x, weight, bias), torch.layer_norm(x.float(), (256,), weight, bias, 1e-6))


@pytest.mark.parametrize("mode", [0, 1])
@BLACKWELL
def test_flashinfer_gated_residual_rmsnorm(mode) -> None:
    x, weight = filled(2, 8192), filled(8192) if mode else None
    residual, alpha, beta = (filled(*shape, dtype=torch.float32) for shape in ((2, 8192), (8192,), (8192,)))
    of("flashinfer.norm").gated_residual_rmsnorm(x, residual, weight, alpha, beta)


@BLACKWELL
def test_flashinfer_gated_residual_next_rmsnorm() -> None:
    residual, alpha, beta = (filled(*shape, dtype=torch.float32) for shape in ((2, 8192), (8192,), (8192,)))
    of("flashinfer.norm").gated_residual_next_rmsnorm(filled(2, 8192), residual, filled(8192), alpha, beta)


@BLACKWELL
def test_flashinfer_rmsnorm_sigmoid_gate() -> None:
    x, gate = filled(4, 2, 64), filled(4, 2, 64)
    right = normed(x, torch.ones(64)) * gate.float().sigmoid()
    of("flashinfer.norm").rmsnorm_sigmoid_gate(x, gate)
    near(x, right)


@pytest.mark.parametrize("swizzled", [True, False])
def test_flashinfer_mxfp8_quantize(swizzled) -> None:
    x = filled(100, 256)
    out, scale = of("flashinfer.quantization.kernels.mxfp8_quantize").mxfp8_quantize_cute_dsl(x, swizzled)
    if not swizzled:
        factor = scale.view(torch.uint8).reshape(100, 8).float().sub(127).exp2().repeat_interleave(32, 1)
        near(out.float() * factor, x, 0.07)


@pytest.mark.parametrize("layout", [0, 2])
@BLACKWELL
def test_flashinfer_mxfp4_quantize(layout) -> None:
    of("flashinfer.quantization.kernels.mxfp4_quantize").mxfp4_quantize_cute_dsl(filled(100, 256), layout)


@pytest.mark.parametrize("layout", [0, 1, 2])
@BLACKWELL
def test_flashinfer_nvfp4_quantize(layout) -> None:
    scale = torch.tensor([3.0], device="cuda")
    of("flashinfer.quantization.kernels.nvfp4_quantize").nvfp4_quantize_cute_dsl(filled(100, 256), scale, layout)


@BLACKWELL
def test_flashinfer_nvfp4_quantize_by_tma() -> None:
    scale = torch.tensor([3.0], device="cuda")
    of("flashinfer.quantization.kernels.nvfp4_quantize").nvfp4_quantize_cute_dsl(filled(1024, 1024), scale)


@BLACKWELL
def test_flashinfer_nvfp4_quantize_smooth() -> None:
    x, scale = filled(100, 256), torch.tensor([3.0], device="cuda")
    of("flashinfer.quantization.kernels.nvfp4_quantize").nvfp4_quantize_smooth_cute_dsl(x, filled(256), scale)


@BLACKWELL
def test_flashinfer_silu_and_mul_nvfp4_quantize() -> None:
    x, scale = filled(100, 512), torch.tensor([3.0], device="cuda")
    of("flashinfer.quantization.kernels.nvfp4_quantize").silu_and_mul_nvfp4_quantize_cute_dsl(x, scale)


@BLACKWELL
def test_flashinfer_nvfp4_quantize_per_token() -> None:
    x, scale = filled(100, 256), torch.tensor([0.3], device="cuda")
    of("flashinfer.quantization.kernels.nvfp4_quantize").nvfp4_quantize_per_token_cute_dsl(x, scale)


@BLACKWELL
def test_flashinfer_rmsnorm_fp4quant() -> None:
    of("flashinfer.cute_dsl.rmsnorm_fp4quant").rmsnorm_fp4quant(filled(5, 256), filled(256))


@BLACKWELL
def test_flashinfer_add_rmsnorm_fp4quant() -> None:
    x = filled(5, 256), filled(5, 256), filled(256)
    of("flashinfer.cute_dsl.add_rmsnorm_fp4quant").add_rmsnorm_fp4quant(*x)


@pytest.mark.parametrize("name", ["direct", "warp_splitk", "sm100_splitk"])
@BLACKWELL
def test_flashinfer_gemm_of_few_tokens(name) -> None:
    module = of(f"flashinfer.gemm.kernels.dense_bf16_gemm_{name}")
    a, b, out = filled(8, 512), filled(128, 512).t(), filled(8, 128)
    tactic = module.default_tactic(8, 128, 512)
    if name == "direct":
        module.run_direct_dense(a, b, out, False, tactic)
    elif name == "warp_splitk":
        module.run_warp_splitk_dense(a, b, out, False, tactic, filled(128).zero_())
    else:
        module.run_splitk_dense(a, b, None, out, False, tactic)
    near(out, a.float() @ b.float())


@pytest.mark.parametrize("tactic", [0, -1])
@BLACKWELL
def test_flashinfer_tgv_gemm(tactic) -> None:
    a, b, out = filled(8, 256), filled(128, 256).t(), filled(8, 128)
    of("flashinfer.gemm.kernels.tgv_gemm_cute_ext").run_tgv_cute_ext(a, b, None, out, False, tactic)
    near(out, a.float() @ b.float())


def mxfp8(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values, scales and the matrix that they stand for, one scale for all of it."""
    x = fp8(rows, columns)
    length = -(-rows // 128) * 128 * -(-columns // 128) * 4
    return x, torch.full((length,), 126, dtype=torch.uint8, device="cuda"), x.float() / 2


@BLACKWELL
def test_flashinfer_mxfp8_gemm_of_few_tokens() -> None:
    module = of("flashinfer.gemm.kernels.dense_mxfp8_gemm_warp_splitk")
    (a, a_scale, left), (b, b_scale, right), out = mxfp8(8, 512), mxfp8(128, 512), filled(8, 128)
    tactic = module.default_tactic(8, 128, 512)
    module.run_mxfp8_warp_splitk(a, b.t(), a_scale, b_scale, out, False, tactic)
    near(out, left @ right.t())


@pytest.mark.parametrize("backend", ["cute-dsl", "cutedsl_low_latency"])
@BLACKWELL
def test_flashinfer_mm_mxfp8(backend) -> None:
    rows = 200 if backend == "cute-dsl" else 8
    (a, a_scale, left), (b, b_scale, right) = mxfp8(rows, 256), mxfp8(256, 256)
    near(of("flashinfer.gemm.gemm_base").mm_mxfp8(a, b.t(), a_scale, b_scale, backend=backend), left @ right.t())


def nvfp4(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Bytes of two values each, equal scales, and the matrix in float32."""
    codes = torch.randint(16, (rows, columns), dtype=torch.uint8)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat([values, -values])[codes.long()]
    scale = torch.full((-(-rows // 128) * 128, columns // 16), 0.5).to(torch.float8_e4m3fn)
    return codes[:, ::2] | codes[:, 1::2] << 4, scale.view(torch.uint8), values / 2


@pytest.mark.parametrize("backend", ["cute-dsl", "cutedsl_low_latency"])
@BLACKWELL
def test_flashinfer_mm_fp4(backend) -> None:
    rows = 200 if backend == "cute-dsl" else 8
    (a, a_scale, left), (b, b_scale, right) = nvfp4(rows, 256), nvfp4(256, 256)
    one = torch.ones(1, device="cuda")
    run = of("flashinfer.gemm.gemm_base").mm_fp4
    near(run(a, b.t(), a_scale, b_scale.t(), one, torch.bfloat16, backend=backend), left @ right.t())


@BLACKWELL
def test_flashinfer_mm_bf16_fp4() -> None:
    module = of("flashinfer.gemm.gemm_bf16_fp4")
    a, (b, scale, right) = filled(16, 256), nvfp4(256, 256)
    ready = module.prepare_bf16_fp4_weights(b, scale, torch.ones(1, device="cuda"), backend="cute-dsl")
    near(module.mm_bf16_fp4(a, *ready, backend="cute-dsl"), a.float() @ right.t())


@BLACKWELL
def test_flashinfer_grouped_gemm_of_contiguous_groups() -> None:
    a, b, out = fp8(256, 256), fp8(2, 128, 256), filled(256, 128)
    a_scale, b_scale = (torch.ones(*shape, device="cuda") for shape in ((256, 2), (2, 1, 2)))
    groups = torch.arange(2, dtype=torch.int32, device="cuda").repeat_interleave(128)
    run = of("flashinfer.gemm.kernels.grouped_gemm_contiguous_blackwell")
    run.grouped_gemm_fp8_nt_groupwise_contiguous_sm100(a, b, a_scale, b_scale, groups, out)
    near(out, torch.cat([a[:128].float() @ b[0].float().t(), a[128:].float() @ b[1].float().t()]))


@pytest.mark.parametrize("values", ["float4_e2m1fn", "float8_e4m3fn"])
@BLACKWELL
def test_flashinfer_grouped_gemm_of_masked_groups(values) -> None:
    run = of("flashinfer.gemm.kernels.grouped_gemm_masked_blackwell")
    make, vector, kind = (nvfp4, 16, "float8_e4m3fn") if "4" in values[:6] else (mxfp8, 32, "float8_e8m0fnu")
    lefts, rights = [make(128, 256) for _ in range(2)], [make(128, 256) for _ in range(2)]
    out, rows = filled(2, 128, 128).permute(1, 2, 0), torch.tensor([100, 7], dtype=torch.int32, device="cuda")

    def operand(parts: Any) -> tuple[torch.Tensor, torch.Tensor]:
        scales = torch.stack([scale for _, scale, _ in parts]).view(getattr(torch, kind))
        scales = scales.reshape(2, 1, 256 // vector // 4, 32, 4, 4).permute(3, 4, 1, 5, 2, 0)
        return torch.stack([x for x, _, _ in parts]).permute(1, 2, 0), scales

    names = {"ab_dtype": values, "sf_dtype": kind, "c_dtype": "bfloat16", "sf_vec_size": vector}
    run._grouped_gemm_nt_masked_sm100(operand(lefts), operand(rights), out, rows, **names)
    for n, count in enumerate((100, 7)):
        near(out[:count, :, n], (lefts[n][2] @ rights[n][2].t())[:count])


def gated(batch: int, tokens: int, heads: int = 2, values: int = 4) -> dict[str, torch.Tensor]:
    """Arguments of a step of a gated delta rule."""
    shapes = {"q": heads, "k": heads, "v": values}
    named = {name: filled(batch, tokens, count, 128) / 4 for name, count in shapes.items()}
    named |= {name: filled(batch, tokens, values) for name in "ab"}
    return named | {name: filled(values, dtype=torch.float32) / 4 for name in ("A_log", "dt_bias")}


def delta_rule(state: torch.Tensor, q: Any, k: Any, v: Any, a: Any, b: Any, A_log: Any, dt_bias: Any) -> torch.Tensor:
    """Outputs of a gated delta rule; updates the state (batch, heads, values, keys)."""
    repeat, outs = v.shape[2] // q.shape[2], []
    for t in range(q.shape[1]):
        x, y = (torch.nn.functional.normalize(one[:, t].float(), dim=-1).repeat_interleave(repeat, 1) for one in (q, k))
        decay = (-A_log.exp() * torch.nn.functional.softplus(a[:, t].float() + dt_bias)).exp()
        state *= decay[..., None, None]
        new = (v[:, t].float() - (state @ y[..., None])[..., 0]) * b[:, t].float().sigmoid()[..., None]
        state += new[..., None] * y[..., None, :]
        outs.append((state @ x[..., None])[..., 0] * 128**-0.5)
    return torch.stack(outs, 1)


@pytest.mark.parametrize(("kind", "tokens"), [("float32", 1), ("bfloat16", 1), ("bfloat16", 3)])
def test_flashinfer_gdn_decode(kind, tokens) -> None:
    named, state = gated(2, tokens), filled(2, 4, 128, 128, dtype=getattr(torch, kind))
    right = delta_rule(state.float().clone(), **named)
    out, _ = of("flashinfer.gdn_decode").gated_delta_rule_decode_pretranspose(state=state, **named)
    near(out, right)


def test_flashinfer_gdn_decode_of_states_by_key() -> None:
    named, state = gated(2, 1), filled(2, 4, 128, 128, dtype=torch.float32)
    right = delta_rule(state.transpose(2, 3).clone(), **named)
    out, _ = of("flashinfer.gdn_decode").gated_delta_rule_decode(state=state, backend="flashinfer", **named)
    near(out, right)


def test_flashinfer_gdn_decode_of_drafts() -> None:
    named, state = gated(2, 3), filled(2, 4, 128, 128, dtype=torch.float32)
    right, slots = delta_rule(state.clone(), **named), torch.arange(2, dtype=torch.int32, device="cuda")
    run = of("flashinfer.gdn_decode").gated_delta_rule_mtp
    out, _ = run(initial_state=state, initial_state_indices=slots, disable_state_update=True, **named)
    near(out, right)


@BLACKWELL
def test_flashinfer_gdn_decode_of_drafts_with_replay() -> None:
    named, state = gated(2, 4), filled(2, 4, 128, 128, dtype=torch.float32)
    slots = torch.arange(2, dtype=torch.int32, device="cuda")
    windows = {"rawv": filled(2, 4, 4, 128), "rawk": filled(2, 2, 4, 128)}
    windows |= {name: filled(2, 4, 4, dtype=torch.float32) for name in ("g", "beta")}
    module, right = of("flashinfer.gdn_decode"), delta_rule(state.clone(), **named)
    named |= {f"replayssm_{name}": value for name, value in windows.items()}
    places = {"initial_state": state, "initial_state_indices": slots, "disable_state_update": True}
    out, _ = module.gated_delta_rule_mtp(cache_replayssm=True, **places, **named)
    near(out, right)
    caches = [x[None] for x in (state, *windows.values())]
    for backend in ("simt", "tcgen05"):
        module.gated_delta_rule_replayssm_commit(*caches, slots, torch.full_like(slots, 2), backend=backend)


@pytest.mark.parametrize("use_cp", [True, False])
def test_flashinfer_gdn_prefill(use_cp) -> None:
    q, k = (torch.nn.functional.normalize(filled(100, 2, 128).float(), dim=-1).bfloat16() for _ in range(2))
    ends = torch.tensor([0, 40, 100], dtype=torch.int64, device="cuda")
    gates = [torch.rand(100, 2, device="cuda") / 2 + 0.5 for _ in range(2)]
    run = of("flashinfer.gdn_prefill").chunk_gated_delta_rule
    run(q, k, filled(100, 2, 128), *gates, cu_seqlens=ends, output_final_state=True, use_cp=use_cp)


@BLACKWELL
def test_flashinfer_qk_l2norm() -> None:
    q, k = filled(10, 2, 128), filled(10, 2, 128)
    out, _ = of("flashinfer.gdn_kernels.qk_l2norm").normalize_qk(q, k)
    near(out, torch.nn.functional.normalize(q.float(), dim=-1))


@BLACKWELL
def test_flashinfer_kda_prefill() -> None:
    named = {name: filled(1, 64, 2, 128) for name in "qkvg"} | {"beta": filled(1, 64, 2)}
    named |= {"A_log": filled(2, dtype=torch.float32), "dt_bias": filled(256, dtype=torch.float32)}
    out, _ = of("flashinfer.kda").recurrent_kda(
        **named, use_gate_in_kernel=True, beta_is_logit=True, lower_bound=-5.0, output_final_state=True
    )
    q, k, v, g, beta = (named[name][0].float() for name in ("q", "k", "v", "g", "beta"))
    q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    decay = (-5 * (named["A_log"].exp()[:, None] * (g + named["dt_bias"].view(2, 128))).sigmoid()).exp()
    state, right = torch.zeros(2, 128, 128), torch.zeros(64, 2, 128)
    for t in range(64):
        state *= decay[t, :, None]
        new = (v[t] - (state @ k[t, :, :, None])[..., 0]) * beta[t, :, None].sigmoid()
        state += new[..., None] * k[t, :, None]
        right[t] = (state @ q[t, :, :, None])[..., 0] * 128**-0.5
    near(out[0], right)


def pool(keys: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(keys // 64, dtype=torch.int32, device="cuda")[None], torch.tensor([100], dtype=torch.int32)


@BLACKWELL
def test_flashinfer_fp8_paged_mqa_logits() -> None:
    keys, (table, lengths) = torch.zeros(2, 64, 1, 132, dtype=torch.uint8, device="cuda"), pool(128)
    values, scales = fp8(2, 64, 128), torch.ones(2, 64, device="cuda")
    keys.view(2, -1).copy_(torch.cat([x.view(torch.uint8).flatten(1) for x in (values, scales)], 1))
    q, weights = fp8(1, 1, 64, 128), torch.rand(1, 64, device="cuda")
    out = of("flashinfer.attn_scores.attn_scores").fp8_paged_mqa_logits(q, keys, weights, table, lengths, 128)
    scores = (q[0, 0].float() @ values.reshape(128, 128).float().t()).relu()
    near(out[:, :100], (weights @ scores)[:, :100])


@BLACKWELL
def test_flashinfer_fp4_paged_mqa_logits() -> None:
    table, lengths = pool(128)
    keys = torch.full((2, 64, 1, 68), 0x70, dtype=torch.uint8, device="cuda")
    q, scales = torch.randint(256, (1, 1, 64, 64), dtype=torch.uint8), torch.full((1, 1, 64), 0x7F7F7F7F).int()
    weights = torch.rand(1, 64, device="cuda")
    of("flashinfer.attn_scores.attn_scores").fp4_paged_mqa_logits(q, scales, keys, weights, table, lengths, 128)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """Attention of (tokens, heads, size)."""
    repeat = q.shape[1] // k.shape[1]
    q, k, v = (x.float().transpose(0, 1) for x in (q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)))
    scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1 + k.shape[1] - q.shape[1]).bool(), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(0, 1)


@pytest.mark.parametrize("splits", [1, 2])
@BLACKWELL
def test_flashinfer_decode(splits) -> None:
    run = of("flashinfer.cute_dsl.attention").BatchDecodeCuteDSLWrapper(torch.empty(1 << 20, device="cuda"))
    run.plan(1, 200, 8, 1, 128, q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16, kv_splits=splits)
    q, k, v = filled(1, 1, 8, 128), filled(1, 200, 1, 128), filled(1, 200, 1, 128)
    near(run.run(q, k, v)[0], attention(q[0], k[0], v[0]))


@BLACKWELL
def test_flashinfer_decode_of_pages() -> None:
    run = of("flashinfer.cute_dsl.attention").BatchDecodePagedCuteDSLWrapper(torch.empty(1 << 20, device="cuda"))
    table, lengths = pool(128)
    ends = torch.tensor([0, 2], dtype=torch.int32, device="cuda")
    kinds = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
    run.plan(ends, table[0], lengths, 8, 1, 128, 64, kv_splits=1, **kinds)
    q, k, v = filled(1, 8, 128), filled(2, 64, 1, 128), filled(2, 64, 1, 128)
    near(run.run(q, k, v).view(1, 8, 128), attention(q, *(x.reshape(128, 1, 128)[:100] for x in (k, v))))


@pytest.mark.parametrize("causal", [False, True])
@BLACKWELL
def test_flashinfer_prefill(causal) -> None:
    run = of("flashinfer.cute_dsl.attention").BatchPrefillCuteDSLWrapper(torch.empty(1 << 20, dtype=torch.uint8))
    ends = torch.tensor([0, 150], dtype=torch.int32, device="cuda")
    kinds = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
    run.plan(ends, ends, 2, 1, 128, 128, causal, **kinds)
    q, k, v = filled(150, 2, 128), filled(150, 1, 128), filled(150, 1, 128)
    near(run.run(q, k, v), attention(q, k, v, causal))


@BLACKWELL
def test_flashinfer_mla_decode_of_parts() -> None:
    run = of("flashinfer.cute_dsl.attention.wrappers.batch_mla").cute_dsl_mla_decode
    q, (table, lengths) = filled(1, 1, 128, 576), pool(128)
    keys = filled(2, 64, 576)
    out = run(q, keys, torch.empty(1 << 24, dtype=torch.int8), 512, 64, table, lengths, 100, 576**-0.5)
    flat = keys.reshape(128, 1, 576)[:100]
    near(out[0], attention(q[0], flat, flat[..., :512]))


@HOPPER
def test_flashinfer_moe_of_sm90() -> None:
    x, up, down = filled(16, 128), filled(2, 256, 128) / 8, filled(2, 128, 128) / 8
    limits, experts = (torch.tensor(x, dtype=torch.int32, device="cuda") for x in ([16, 144], [0, 1]))
    rows = torch.zeros(256, dtype=torch.int32, device="cuda")
    rows[:16] = rows[128:144] = torch.arange(16) * 2
    rows[128:144] += 1
    count, kind = torch.tensor([2], dtype=torch.int32, device="cuda"), "flashinfer.fused_moe.cute_dsl"
    first = of(f"{kind}.sm90_contiguous_gather_grouped_gemm_act_fusion")
    weights = first.interleave_up_gate_sm90(up)
    run = first.sm90_contiguous_gather_grouped_gemm_act_fusion
    middle = run(x, weights, experts, limits, rows, count, topk=2, permuted_m=256)
    run = of(f"{kind}.sm90_contiguous_grouped_gemm_finalize_fusion").sm90_contiguous_grouped_gemm_finalize_fusion
    scales, out = torch.rand(16, 2, device="cuda"), torch.zeros(16, 128, device="cuda").bfloat16()
    run(middle, down, experts, limits, rows, count, scales, out, topk=2)


def test_sglang_rmsnorm_fanout() -> None:
    x, weights = filled(4, 1024), [filled(1024) for _ in range(3)]
    outs = of("sglang.kernels.ops.layernorm.rmsnorm_fanout").rmsnorm_fanout(x, *weights, 1e-6)
    for out, weight in zip(outs, weights, strict=True):
        near(out, normed(x, weight))


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_sglang_norm_scale_shift(kind) -> None:
    module = of("sglang.kernels.ops.diffusion.norm.scale_residual_norm_cutedsl")
    x, weight, scale, shift = filled(1, 6, 512), filled(512), filled(512), filled(512)
    bias = filled(512) if kind == "layer" else None
    out = module.fused_norm_scale_shift(x, weight, bias, scale, shift, kind, 1e-6)
    right = (
        normed(x, weight) if bias is None else torch.layer_norm(x.float(), (512,), weight.float(), bias.float(), 1e-6)
    )
    near(out, right * (1 + scale.float()) + shift.float())
    out, _ = module.fused_scale_residual_norm_scale_shift(
        filled(1, 6, 512), x, filled(512), weight, bias, scale, shift, kind, 1e-6
    )


def test_sglang_rmsnorm_rope() -> None:
    module = of("sglang.kernels.ops.diffusion.rope.rmsnorm_interleaved_rope_cutedsl")
    module.fused_rmsnorm_interleaved_rope_(filled(6, 512), filled(512), filled(6, 64, dtype=torch.float32), 1e-6, 64)


def test_sglang_projection_of_few_tokens() -> None:
    a, b = filled(4, 1024), filled(64, 1024).t()
    near(of("sglang.kernels.ops.gemm.cutedsl_dsv3_fused_a_gemm")._dsv3_fused_a_gemm_run(a, b), a.float() @ b.float())


@BLACKWELL
def test_sglang_router() -> None:
    a, b = filled(4, 2048, dtype=torch.float32), filled(16, 2048, dtype=torch.float32)
    near(of("sglang.kernels.ops.gemm.muse_spark_router_gemv_cutedsl").router_gemv_cute(a, b, False), a @ b.t())


@pytest.mark.parametrize("name", ["silu", "warp", "tgv"])
@BLACKWELL
def test_sglang_gemm_of_few_tokens(name) -> None:
    a, b, out = filled(8, 512), filled(128, 512).t(), filled(8, 128)
    right = a.float() @ b.float()
    if name == "silu":
        module = of("sglang.kernels.ops.gemm.dense_bf16_gemm_sm100_splitk_epilogue")
        module.run_splitk_dense_silu(a, b, out, False, module.default_tactic(8, 128, 512), 1.0)
        right = torch.nn.functional.silu(right)
    elif name == "warp":
        module = of("sglang.kernels.ops.gemm.dense_bf16_gemm_warp_splitk")
        module.run_warp_splitk_dense(a, b, out, False, module.default_tactic(8, 128, 512))
    else:
        of("sglang.kernels.ops.gemm.cutedsl_bf16_gemm")._run_tgv(a, b, None, out, False, 0)
    near(out, right)


@BLACKWELL
def test_sglang_dual_gemm() -> None:
    x, gate, up = filled(8, 256), filled(256, 256) / 16, filled(256, 256) / 16
    of("sglang.kernels.ops.gemm.cutedsl_dual_gemm")._dual_gemm_swiglu_run(x, torch.cat([gate, up]))


@pytest.mark.parametrize("batch", [2, 40])
def test_sglang_gdn_decode(batch) -> None:
    named, state = gated(batch, 1, 1, 2), filled(batch, 2, 128, 128, dtype=torch.float32)
    named |= {"initial_state_source": state, "initial_state_indices": torch.arange(batch, dtype=torch.int32)}
    named["dt_bias"] = named["dt_bias"].bfloat16()
    right = delta_rule(state.clone(), **{x: y for x, y in named.items() if "initial" not in x})
    near(of("sglang.kernels.ops.attention.cutedsl_gdn").cutedsl_fused_sigmoid_gating_delta_rule_update(**named), right)


@pytest.mark.parametrize("batch", [2, 40])
def test_sglang_kda_decode(batch) -> None:
    named, state = gated(batch, 1, 1, 2), filled(batch, 2, 128, 128, dtype=torch.float32)
    named |= {"initial_state_source": state, "initial_state_indices": torch.arange(batch, dtype=torch.int32)}
    named |= {"a": filled(batch, 1, 2, 128), "dt_bias": filled(2, 128, dtype=torch.float32)}
    of("sglang.kernels.ops.attention.cutedsl_kda").cutedsl_fused_sigmoid_gating_kda_update(**named)


@BLACKWELL
def test_sglang_gdn_prefill() -> None:
    module = of("sglang.kernels.ops.attention.linear.gdn_blackwell")
    q, k = (torch.nn.functional.normalize(filled(1, 100, 1, 128).float(), dim=-1).bfloat16() for _ in range(2))
    ends = torch.tensor([0, 40, 100], dtype=torch.int32, device="cuda")
    gate, beta = -torch.rand(1, 100, 4, device="cuda"), torch.rand(1, 100, 4, device="cuda")
    state = filled(2, 4, 128, 128, dtype=torch.float32)
    places = module.prepare_metadata_cutedsl(ends, 100)
    module.chunk_gated_delta_rule_cutedsl(q, k, filled(1, 100, 4, 128), gate, beta, state, ends, *places)


@pytest.mark.parametrize("kind", ["bf16", "fp8"])
def test_sglang_grouped_gemm(kind) -> None:
    module = of("sglang.kernels.ops.lora.moe.cutedsl.api")
    rows, out = torch.tensor([20, 7], dtype=torch.int32, device="cuda"), filled(2, 32, 128)
    shifts = of("sglang.kernels.ops.lora.moe.cutedsl.schedule_builder")
    tiles = [0, 1 << shifts.TOKEN_CLUSTER_SHIFT, 1]  # two tiles of rows of the first group, one of the second
    named = {"config": module.GroupedGemmConfig(mma_tiler_mn=(128, 16)), "direct_schedule": torch.tensor(tiles)}
    named["schedule_tiles"] = torch.tensor([len(tiles)], dtype=torch.int32)
    if kind == "bf16":
        a, b = filled(2, 32, 256), filled(2, 128, 256)
        module.prepare_masked_bf16(a, b, out, rows, **named).launch()
    else:
        a, b = fp8(2, 32, 256), fp8(2, 128, 256)
        scales = torch.ones(2, 32, 2, device="cuda"), torch.ones(2, 1, 2, device="cuda")
        module.prepare_masked_fp8(a, b, *scales, out, rows, **named).launch()
    for n, count in enumerate((20, 7)):
        near(out[n, :count], (a[n].float() @ b[n].float().t())[:count])
