"""The CUDA driver through ctypes, and what may differ between two results."""

from __future__ import annotations

import ctypes

import numpy as np


class Gpu:
    """The first GPU: uploads, downloads, launches. Raises RuntimeError with the driver's words."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(self.device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self("cuCtxSetCurrent", context)
        self.kept: list[int] = []

    def __call__(self, name: str, *args) -> None:
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")

    def describe(self) -> str:
        """Name of the GPU and the driver's version."""
        name, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self("cuDeviceGetName", name, 100, self.device)
        self("cuDriverGetVersion", ctypes.byref(version))
        return f"{name.value.decode()}, CUDA {version.value // 1000}.{version.value % 1000 // 10} driver"

    def upload(self, data: np.ndarray) -> int:
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(data.nbytes + 256))
        self("cuMemcpyHtoD_v2", address, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes))
        self.kept.append(address.value)
        return address.value

    def download(self, address: int, data: np.ndarray) -> None:
        self(
            "cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(data.nbytes)
        )

    def free(self) -> None:
        """Give back every buffer that was uploaded."""
        for address in self.kept:
            self("cuMemFree_v2", ctypes.c_uint64(address))
        self.kept.clear()

    def kernel(self, image: bytes, name: str) -> ctypes.c_void_p:
        """A function of a cubin, or of PTX that the driver compiles."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image + b"\0"))
        self("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
        return function

    def launch(
        self, function, grid, block, shared: int, params: bytes, sizes: list[tuple[int, int]], cluster=(1, 1, 1)
    ) -> None:
        """Launch with parameters given as one block; sizes: (offset, size) of each."""
        if shared > 48 * 1024:
            self("cuFuncSetAttribute", function, 8, shared)
        buffers = [_aligned(params[o : o + s]) for o, s in sizes]
        array = (ctypes.c_void_p * len(buffers))(*(x.ctypes.data for x in buffers))

        class Attribute(ctypes.Structure):
            _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16)]

        class Config(ctypes.Structure):
            _fields_ = [
                ("dims", ctypes.c_uint32 * 6),
                ("shared", ctypes.c_uint32),
                ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)),
                ("count", ctypes.c_uint32),
            ]

        attribute = Attribute(4, 0, (ctypes.c_uint32 * 16)(*cluster))
        config = Config(
            (ctypes.c_uint32 * 6)(*grid, *block), shared, None, ctypes.pointer(attribute), int(cluster != (1, 1, 1))
        )
        self("cuLaunchKernelEx", ctypes.byref(config), function, array, None)
        self("cuCtxSynchronize")


def _aligned(data: bytes) -> np.ndarray:
    """A copy at a 64-byte boundary, as TMA descriptors need it."""
    raw = np.zeros(len(data) + 64, np.uint8)
    start = -raw.ctypes.data % 64
    raw[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return raw[start:]


_NAN = {"f16": (np.uint16, 0x7C00), "bf16": (np.uint16, 0x7F80), "f32": (np.uint32, 0x7F800000)}
_NAN["f64"] = (np.uint64, 0x7FF0_0000_0000_0000)


def same_nan(words: np.ndarray, kind: str) -> np.ndarray:
    """The bits of values of a float kind with every NaN made the same one.

    Other kinds' bits as they are.
    """
    kind = kind.removesuffix("x2")
    if kind not in _NAN:
        return words
    dtype, infinity = _NAN[kind]
    bits = words.view(dtype).copy()
    magnitude = bits & dtype(2 ** (8 * dtype().itemsize - 1) - 1)
    bits[magnitude > dtype(infinity)] = dtype(2 ** (8 * dtype().itemsize - 1) - 1)
    return bits


def floats(bits: np.ndarray, kind: str) -> np.ndarray:
    """Bits of a float kind as float64."""
    kind = kind.removesuffix("x2")
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(float)
    return bits.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]).astype(float)


def distance(gpu: np.ndarray, own: np.ndarray, kind: str, absolute: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the count of differing places and the distance in units of the last place.

    A difference up to `absolute` counts as none; one between a number and a NaN or infinity, or between the two zeros,
    is infinite.
    """
    a, b = same_nan(gpu, kind), same_nan(own, kind)
    where = np.flatnonzero(a != b)
    if kind.removesuffix("x2") not in _NAN or not len(where):
        return where, np.full(len(where), np.inf)
    x, y = floats(a[where], kind), floats(b[where], kind)
    digits, least = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}[
        kind.removesuffix("x2")
    ]
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.abs(x))), least)
        ulps = np.abs(x - y) / 2.0 ** (exponent - digits)
        ulps[x == y] = np.inf
        ulps[np.abs(x - y) < absolute] = 0
    ulps[~np.isfinite(ulps)] = np.inf
    return where, ulps
