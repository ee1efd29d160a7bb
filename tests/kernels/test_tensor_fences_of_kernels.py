"""The check of tcgen05.fence on this project's kernels and on NVIDIA's."""

from __future__ import annotations

import re

import pytest

from planted import At, Place, check

OWN = {
    "tensor products": Place(
        "tensor_products", "cute_pair", "sm_100a", {"m": 256, "n": 256, "k": 512, "dtype": "fp16"}
    ),
    "MLA decode": Place("mla_decode", "cute_sm100", "sm_100a", {"batch": 2, "kv_length": 193, "dtype": "fp8"}),
    "MLA decode of 16 bits": Place("mla_decode", "cute_sm100", "sm_100a", {"batch": 2, "kv_length": 193}),
    "MLA decode in place": Place(
        "mla_decode", "cute_sm100", "sm_100a", {"batch": 2, "kv_length": 193, "dtype": "fp8"}, "fp8_in_place"
    ),
    "MLA decode in clusters": Place(
        "mla_decode", "cute_sm100", "sm_100a", {"batch": 2, "kv_length": 193, "dtype": "fp16"}, "fp16_pairs2"
    ),
}
GEMM = Place("gemm", "cutlass_persistent", "sm_100a", {"m": 200, "n": 264, "k": 136})
CHECKS = ("tensor-fence",)


def fenced(text: str) -> str:
    """Return PTX with a fence after each wait and before each arrival."""
    before, after = "tcgen05.fence::before_thread_sync; ", " tcgen05.fence::after_thread_sync;"
    text = re.sub(r"mbarrier\.arrive\.|barrier\.cluster\.arrive|bar\.sync", lambda m: before + m[0], text)
    text = re.sub(r"tcgen05\.ld\.[^;]*;", lambda m: m[0] + " tcgen05.wait::ld.sync.aligned;", text)
    return re.sub(r"(bar\.sync|barrier\.cluster\.wait|mbarrier\.try_wait)[^;]*;", lambda m: m[0] + after, text)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", OWN)
def test_kernels_of_ours_have_the_fences_that_ptx_asks_for(kernel) -> None:
    assert check(OWN[kernel], schedules=["random"], checks=CHECKS).messages == []


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "file"), [("tensor products", "kernel.py"), ("MLA decode", "kernel.py")])
def test_a_fence_removed_from_a_kernel_of_ours_is_found(kernel, file) -> None:
    edit = At(r"tcgen05\.fence::after_thread_sync;", "")
    result = check(OWN[kernel], edit, ["random"], CHECKS).findings
    assert any(re.search(rf"but warp \d+ .*no tcgen05.fence::after_thread_sync.*{file}:\d+", text) for text in result)


@pytest.mark.slow
def test_nvidias_kernel_lacks_them_and_a_fence_removed_from_it_once_it_has_them_is_found() -> None:
    assert any("tensor fence: " in text for text in check(GEMM, None, ["random"], CHECKS).findings)
    assert check(GEMM, fenced, ["random"], CHECKS).messages == []
    waits = r"(mbarrier\.try_wait[^;]*;) tcgen05\.fence::after_thread_sync;"
    result = check(GEMM, lambda text: re.sub(waits, r"\1", fenced(text)), ["random"], CHECKS).findings
    assert any("executes no tcgen05.fence::after_thread_sync" in text for text in result)
