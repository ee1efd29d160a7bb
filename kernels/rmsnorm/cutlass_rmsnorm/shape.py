"""How NVIDIA's RMSNorm example divides rows, as far as a launch depends on it."""

from __future__ import annotations

from dataclasses import dataclass

VECTOR_BYTES = 16  # its loads and stores are of 128 bits
CTA_COLUMNS = {2: 2**14, 4: 2**15}  # bytes of an element -> columns up to which the cluster is not doubled
LARGEST_CLUSTER = 8  # what a launch may have unasked; the example goes on to 16
# Largest number of columns of a CTA -> threads that share a row; beyond the last, 256.
THREADS_PER_ROW = {64: 8, 128: 16, 3072: 32, 6144: 64, 16384: 128}


@dataclass(frozen=True)
class Shape:
    """Shape of a launch: `cluster` CTAs work on `threads / threads_per_row` rows.

    Each CTA has `columns` columns of them.
    """

    cluster: int
    threads: int
    threads_per_row: int
    columns: int

    @property
    def rows(self) -> int:
        return self.threads // self.threads_per_row

    @classmethod
    def of(cls, columns: int, element_bytes: int) -> Shape:
        """For rows of `columns` elements, on SM90 and later."""
        cluster = next((size for size in (1, 2, 4, 8) if columns <= CTA_COLUMNS[element_bytes] * size), 16)
        own = columns // cluster
        sharing = next((threads for most, threads in THREADS_PER_ROW.items() if own <= most), 256)
        vector = VECTOR_BYTES // element_bytes
        vectors = max(1, -(-(own // vector) // sharing))  # of each thread
        return cls(cluster, 128 if own <= 16384 else 256, sharing, vector * vectors * sharing)
