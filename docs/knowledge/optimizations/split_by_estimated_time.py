"""A ragged batch, whole and cut into work tiles of about equal time."""

from heapq import heapify, heapreplace
from math import ceil

WORKERS, FIXED = 8, 2.0  # FIXED: cost of a work tile besides its pages, in units of a page


def end(tiles):
    """Return when the last worker ends, if each takes the longest tile that is left."""
    workers = [0.0] * WORKERS
    heapify(workers)
    for tile in sorted(tiles, reverse=True):
        heapreplace(workers, workers[0] + FIXED + tile)
    return max(workers)


def cut(lengths, longest):
    """Cut each request into equal pieces of at most `longest` pages."""
    return [length / ceil(length / longest) for length in lengths for _ in range(ceil(length / longest))]


def test_cutting_the_longest_request_ends_the_batch_earlier():
    ragged, even = [256, 64, 32, 32, 16, 16, 8, 8], [64] * WORKERS
    assert end(cut(ragged, 64)) < 0.4 * end(ragged)
    assert end(cut(even, 32)) > end(even)  # an even batch that fills the workers gains nothing
