"""The operator `mla_decode`.

Requests of every length, what lies past their ends, and what a ragged batch costs.
"""

import dataclasses
import math

import pytest

from kernels.mla_decode import operator as mla
from kernels.mla_decode.operator import BAD_ENTRY, DISTRIBUTIONS, PAGE, Workload, cost, request_lengths

SMALL = Workload(6, 300, "bf16", heads=4, latent=64, rope=16, paged=True)


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nothing_past_a_requests_end_reaches_the_reference(distribution, tokens):
    work = dataclasses.replace(SMALL, query_tokens=tokens)
    inputs = mla.make_inputs(work, 3, distribution=distribution)
    for compute in (mla.reference, mla.same_precision):
        outputs = compute(inputs, work)
        assert bool(outputs.out.isfinite().all())
        assert not bool(outputs.lse.isnan().any())


def test_padding_is_nan_and_infinite_in_the_last_page_and_in_whole_pages():
    inputs = mla.make_inputs(SMALL, 3, distribution="nan_padding")
    for request, length in enumerate(inputs.kv_lengths.tolist()):
        keys = inputs.kv_cache[inputs.page_table[request].long()].flatten(0, 1).float()
        assert bool(keys[:length].isfinite().all()) and not bool(keys[length:].isfinite().any())
    first = int(inputs.kv_lengths[0])
    rest = inputs.kv_cache[inputs.page_table[0].long()].flatten(0, 1).float()[first:]
    assert first % PAGE and len(rest) >= PAGE + 1, "a part of a page and a whole one, in a batch of one too"
    assert rest.isnan().any() and (rest == math.inf).any() and (rest == -math.inf).any()


def test_entries_past_the_pages_of_a_request_are_no_pages_and_the_table_is_wider_than_needed():
    inputs = mla.make_inputs(SMALL, 3, distribution="bad_table")
    assert inputs.page_table.shape[1] > SMALL.pages_per_request
    for request, length in enumerate(inputs.kv_lengths.tolist()):
        used = -(-length // PAGE)
        assert bool((inputs.page_table[request, used:] == BAD_ENTRY).all())
        assert bool((inputs.page_table[request, :used] < len(inputs.kv_cache)).all())


def test_a_row_that_sees_no_key_has_output_0_and_an_lse_of_plus_infinity():
    work = dataclasses.replace(SMALL, query_tokens=3)
    inputs = mla.make_inputs(work, 0, distribution="empty_requests")
    lengths = inputs.kv_lengths.tolist()
    assert lengths[0] == lengths[4] == 0 and lengths[1] == lengths[5] == 1
    for compute in (mla.reference, mla.same_precision):
        result = compute(inputs, work)
        for request, length in enumerate(lengths):
            for token in range(3):
                keyless = length - 2 + token <= 0
                assert bool((result.lse[request, token] == math.inf).all()) == keyless
                assert bool((result.out[request, token] == 0).all()) == keyless


def test_ragged_lengths_are_log_uniform_and_always_the_same():
    work = Workload(2000, 8192, lengths="ragged")
    lengths = request_lengths(work)
    assert lengths == request_lengths(work) and min(lengths) >= 1 and max(lengths) <= 8192
    assert sum(length < 8192**0.5 for length in lengths) == pytest.approx(1000, abs=100), "the median is the root"
    assert min(request_lengths(dataclasses.replace(work, query_tokens=4))) == 4
    assert mla.make_inputs(dataclasses.replace(SMALL, lengths="ragged"), 0).kv_lengths.tolist() == list(
        request_lengths(dataclasses.replace(SMALL, lengths="ragged"))
    )


def test_a_ragged_batch_costs_what_its_requests_do():
    ragged, full = Workload(7, 4096, lengths="ragged"), Workload(7, 4096)
    tokens = sum(request_lengths(ragged))
    assert cost(ragged).flops * 7 * 4096 == cost(full).flops * tokens
    assert cost(full).bytes_read - cost(ragged).bytes_read == 2 * (7 * 4096 - tokens) * 576
    assert cost(ragged).bytes_written == cost(full).bytes_written


def test_ids_tell_ragged_from_full():
    assert Workload(7, 4096).id == "b7_q1_s4096_bf16"
    assert Workload(7, 4096, lengths="ragged").id == "b7_q1_s4096_bf16_ragged"
    with pytest.raises(ValueError, match="lengths is 'short'; allowed: full, ragged"):
        Workload(7, 4096, lengths="short")
