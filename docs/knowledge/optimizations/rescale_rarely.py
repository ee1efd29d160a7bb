"""The sums are rescaled only when a maximum has grown by more than a threshold."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

TILES, THRESHOLD = 16, 8.0  # of base-2 exponents: probabilities stay below 2 to the 8


@cute.kernel
def kernel(scores: cute.Tensor, y: cute.Tensor, rescaled: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    reference, total, times = scores[0, lane], cutlass.Float32(0), cutlass.Int32(0)
    for tile in cutlass.range(TILES):
        score = scores[tile, lane]
        if cute.arch.vote_any_sync(score - reference > THRESHOLD):
            larger = cute.arch.fmax(reference, score)
            total *= cute.math.exp2(reference - larger)
            reference, times = larger, times + 1
        total += cute.math.exp2(score - reference)
    y[lane] = reference + cute.math.log2(total)
    rescaled[lane] = times


@cute.jit
def host(scores: cute.Tensor, y: cute.Tensor, rescaled: cute.Tensor):
    kernel(scores, y, rescaled).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_the_log_sum_is_right_and_few_tiles_rescale():
    scores, y, rescaled = 3 * torch.randn(TILES, 32), torch.zeros(32), torch.zeros(32, dtype=torch.int32)
    host(*map(from_dlpack, (scores, y, rescaled)))
    assert torch.allclose(y, torch.logsumexp(scores * 0.6931472, 0) / 0.6931472, atol=1e-4)
    assert rescaled.max() < TILES / 2
