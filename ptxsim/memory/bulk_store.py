"""Bulk stores: a task that reads shared memory, then one that writes global memory."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..core.work import Kind, Origin, Pipe, Task
from ..frontend.formats import TYPES
from ..isa.numeric import bf16_to_f32, f32_to_bf16


@dataclass(slots=True, eq=False)
class Store:
    """A bulk store of a thread, or an identical one of several threads.

    Thread numbers are within the CTA. Its two halves are tasks of a separate pipe.
    """

    origin: Origin
    threads: tuple[int, ...]
    data: np.ndarray | None = field(default=None, init=False)
    pipe: Pipe = field(init=False)
    written: bool = field(default=False, init=False)
    waiters: set[int] = field(default_factory=set, init=False)  # threads that have waited, at least for its read

    @property
    def waited(self) -> bool:
        """Whether every requesting thread has waited for its read of shared memory."""
        return len(self.waiters) == len(self.threads)

    @property
    def label(self) -> str:
        raise NotImplementedError

    def read(self) -> np.ndarray:
        """Return the bytes from shared memory."""
        raise NotImplementedError

    def write(self, data: np.ndarray) -> None:
        """Write the bytes to global memory."""
        raise NotImplementedError

    def begin(self) -> None:
        """Queue both halves and join the open group of each thread."""
        cluster, cta = self.origin.cluster, self.origin.cta
        self.pipe = cluster.pipes.own(cta.rank)
        cluster.post(self.pipe, ReadHalf(self))
        cluster.post(self.pipe, WriteHalf(self))
        for thread in self.threads:
            cluster.stores.setdefault((cta.rank, thread), [[]])[-1].append(self)


@dataclass(slots=True, eq=False)
class ReadHalf(Task):
    store: Store
    kind: Kind = "store"

    @property
    def label(self) -> str:
        return f"{self.store.label} (read)"

    def run(self) -> None:
        self.store.data = self.store.read()


@dataclass(slots=True, eq=False)
class WriteHalf(Task):
    store: Store
    kind: Kind = "store"

    @property
    def label(self) -> str:
        return f"{self.store.label} (write)"

    def run(self) -> None:
        assert self.store.data is not None  # the read ran before it in the same pipe
        self.store.write(self.store.data)
        self.store.written = True


REDUCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda x, top: np.where(x >= top, x.dtype.type(0), x + x.dtype.type(1)),
    "dec": lambda x, top: np.where((x == 0) | (x > top), top, x - x.dtype.type(1)),
}


def combine(old: np.ndarray, new: np.ndarray, kind: str, op: str) -> np.ndarray:
    """Return old op new per element, as bytes of the shape of `old`."""
    a, b = (np.ascontiguousarray(x).view(TYPES[kind].dtype) for x in (old, new))
    if kind == "bf16":
        result = f32_to_bf16(REDUCTIONS[op](bf16_to_f32(a), bf16_to_f32(b)))
    else:
        result = REDUCTIONS[op](a, b)
    return np.ascontiguousarray(result).view(np.uint8).reshape(old.shape)
