"""The GPU through CUDA's driver API: modules, buffers, launches, graphs, events, tensor maps."""

import ctypes
import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.microbenchmarks.kernel import STAMPS, assemble
from benchmarks.microbenchmarks.reading import Reading, Run, slope_reading

REPETITIONS = 5
OUT_BYTES = 1 << 26
SINK_BYTES = 1 << 16


class GpuError(RuntimeError):
    """A call of the driver that failed; the context may be unusable afterwards."""


def checked(result: tuple[Any, ...]) -> Any:
    """Return the value of a driver call; raise GpuError with the error's name."""
    error, *values = result
    if int(error) != 0:
        raise GpuError(f"the driver answered {error.name}")
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True)
class Shape:
    """Shape of a launch: CTAs, threads, dynamic shared bytes, cluster size, early launch."""

    grid: int = 1
    block: int = 32
    shared: int = 0
    cluster: int = 1
    early: bool = False


@dataclass(frozen=True)
class Arguments:
    """What a timed kernel gets besides its output: two pointers, three numbers, a tensor map."""

    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    tensor_map: Any = None


class Gpu:
    """The first GPU of this machine, with a context of its own."""

    def __init__(self, cubins: Path) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self._cubins = cubins
        checked(driver.cuInit(0))
        self._device = checked(driver.cuDeviceGet(0))
        self._context = checked(driver.cuDevicePrimaryCtxRetain(self._device))
        checked(driver.cuCtxSetCurrent(self._context))
        self.stream = checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_DEFAULT))
        self.processors = self._attribute("MULTIPROCESSOR_COUNT")
        self._module: Any = None
        self._functions: dict[str, Any] = {}
        self._buffers: dict[str, int] = {}
        self.out = self.buffer("out", OUT_BYTES)
        self.sink = self.buffer("sink", SINK_BYTES)

    def _attribute(self, name: str) -> int:
        which = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(checked(self.driver.cuDeviceGetAttribute(which, self._device)))

    def describe(self) -> dict[str, Any]:
        """Return what a results file records of the GPU: no serial number, no host."""
        name = checked(self.driver.cuDeviceGetName(100, self._device)).split(b"\0")[0].decode()
        result = {
            "name": name,
            "compute_capability": [self._attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR")],
            "processors": self.processors,
            "l2_bytes": self._attribute("L2_CACHE_SIZE"),
            "largest_sm_clock_mhz": self._attribute("CLOCK_RATE") / 1000,
            "memory_clock_mhz": self._attribute("MEMORY_CLOCK_RATE") / 1000,
            "cuda_driver_version": checked(self.driver.cuDriverGetVersion()),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        return result | _from_nvml()

    def load(self, text: str) -> None:
        """Load `text` as the current module, which the driver compiles without ptxas."""
        cubin = assemble(text, self._cubins)
        image = cubin.read_bytes() if cubin else text.encode() + b"\0"
        self._module = checked(self.driver.cuModuleLoadData(image))
        self._functions = {}

    def function(self, name: str, shape: Shape) -> Any:
        if name not in self._functions:
            self._functions[name] = checked(self.driver.cuModuleGetFunction(self._module, name.encode()))
        result, attribute = self._functions[name], self.driver.CUfunction_attribute
        if shape.shared > 48 * 1024:
            which = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(self.driver.cuFuncSetAttribute(result, which, shape.shared))
        if shape.cluster > 8:
            which = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            checked(self.driver.cuFuncSetAttribute(result, which, 1))
        return result

    def buffer(self, name: str, size: int) -> int:
        """Return the address of a buffer of random bytes, allocated at first use."""
        if name not in self._buffers:
            address = checked(self.driver.cuMemAlloc(size))
            self._buffers[name] = int(address)
            seed = np.random.default_rng(0).integers(0, 256, min(size, 1 << 24), dtype=np.uint8)
            checked(self.driver.cuMemcpyHtoD(int(address), seed.ctypes.data, seed.nbytes))
            filled = seed.nbytes
            while filled < size:
                step = min(filled, size - filled)
                checked(self.driver.cuMemcpyDtoD(int(address) + filled, int(address), step))
                filled += step
        return self._buffers[name]

    def write(self, address: int, values: np.ndarray) -> None:
        checked(self.driver.cuMemcpyHtoD(address, values.ctypes.data, values.nbytes))

    def write_spaced(self, address: int, stride: int, values: np.ndarray) -> None:
        """Write 8-byte words `stride` apart: up to 128 bytes an image, else a 2-D copy."""
        if stride <= 128:
            image = np.zeros((len(values), stride // 8), np.uint64)
            image[:, 0] = values
            return self.write(address, image)
        d, copy = self.driver, self.driver.CUDA_MEMCPY2D()
        copy.srcMemoryType, copy.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_HOST, d.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcHost, copy.srcPitch = values.ctypes.data, 8
        copy.dstDevice, copy.dstPitch = address, stride
        copy.WidthInBytes, copy.Height = 8, len(values)
        return checked(d.cuMemcpy2DUnaligned(copy)) and None

    def overwrite_l2(self) -> None:
        """Write four times the size of the L2 elsewhere."""
        checked(self.driver.cuMemsetD8(self.buffer("l2", 1 << 28), 0, 1 << 28))

    def read(self, address: int, count: int, dtype: Any = np.uint64) -> np.ndarray:
        values = np.zeros(count, dtype)
        checked(self.driver.cuMemcpyDtoH(values.ctypes.data, address, values.nbytes))
        return values

    def tensor_map(self, address: int, columns: int, rows: int, box_rows: int) -> Any:
        """Return a tensor map of 16-bit rows of `columns`; a box has 64 columns, swizzled."""
        d = self.driver
        wide, narrow = d.cuuint64_t, d.cuuint32_t
        return checked(
            d.cuTensorMapEncodeTiled(
                d.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                2,
                address,
                [wide(columns), wide(rows)],
                [wide(2 * columns)],
                [narrow(64), narrow(box_rows)],
                [narrow(1), narrow(1)],
                d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                d.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
                d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )

    def launch(self, name: str, shape: Shape, arguments: Arguments, iterations: int) -> None:
        """Put a kernel of the frame on the stream."""
        values: list[Any] = [
            ctypes.c_uint64(self.out),
            ctypes.c_uint64(self.sink),
            ctypes.c_uint32(iterations),
            ctypes.c_uint64(arguments.a),
            ctypes.c_uint64(arguments.b),
            ctypes.c_uint32(arguments.c),
            ctypes.c_uint32(arguments.d),
            ctypes.c_uint32(arguments.e),
        ]
        places = [ctypes.addressof(value) for value in values]
        if arguments.tensor_map is not None:
            places.insert(0, int(arguments.tensor_map.getPtr()))
        pointers = (ctypes.c_void_p * len(places))(*places)
        function = self.function(name, shape)
        checked(self.driver.cuLaunchKernelEx(self._config(shape), function, ctypes.addressof(pointers), 0))

    def _config(self, shape: Shape) -> Any:
        d = self.driver
        config = d.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = shape.block, 1, 1
        config.sharedMemBytes, config.hStream = shape.shared, self.stream
        attributes = []
        if shape.cluster > 1:
            cluster = d.CUlaunchAttribute()
            cluster.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            value = cluster.value
            value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = shape.cluster, 1, 1
            cluster.value = value
            attributes.append(cluster)
        if shape.early:
            early = d.CUlaunchAttribute()
            early.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            value = early.value
            value.programmaticStreamSerializationAllowed = 1
            early.value = value
            attributes.append(early)
        config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def synchronize(self) -> None:
        checked(self.driver.cuStreamSynchronize(self.stream))

    def run(self, name: str, shape: Shape, arguments: Arguments, iterations: int) -> Run:
        """Launch once, wait, and read the stamps (of warps that wrote none: zeros)."""
        warps = max(1, shape.block // 32)
        stamps = shape.grid * warps * STAMPS
        checked(self.driver.cuMemsetD8(self.out, 0, stamps * 8))
        self.launch(name, shape, arguments, iterations)
        self.synchronize()
        return Run.of(self.read(self.out, stamps), shape.grid, warps)

    def slope(
        self,
        name: str,
        shape: Shape,
        arguments: Arguments,
        times: tuple[int, int],
        per_iteration: float,
        *,
        gpu_bytes: float = 0.0,
        rate: bool = False,
    ) -> Reading:
        """Return cycles per operation, or with `rate` the inverse, from few and many iterations."""
        self.run(name, shape, arguments, times[0])
        self.run(name, shape, arguments, times[1])
        pairs = [
            (self.run(name, shape, arguments, times[0]), self.run(name, shape, arguments, times[1]))
            for _ in range(REPETITIONS)
        ]
        return slope_reading(pairs, times, per_iteration, bytes_per_iteration=gpu_bytes, rate=rate)

    def microseconds(self, work: Callable[[], None], hold: Callable[[], None] | None = None) -> float:
        """Return µs between events around `work`; `hold` keeps the GPU busy until it is enqueued."""
        flags = self.driver.CUevent_flags.CU_EVENT_DEFAULT
        before, after = checked(self.driver.cuEventCreate(flags)), checked(self.driver.cuEventCreate(flags))
        if hold is not None:
            hold()
        checked(self.driver.cuEventRecord(before, self.stream))
        work()
        checked(self.driver.cuEventRecord(after, self.stream))
        checked(self.driver.cuEventSynchronize(after))
        return float(checked(self.driver.cuEventElapsedTime(before, after))) * 1000

    def graph(self, launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Capture launches from the stream into a graph; return a function that replays it."""
        d = self.driver
        checked(d.cuStreamBeginCapture(self.stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        for put in launches:
            put()
        captured = checked(d.cuStreamEndCapture(self.stream))
        ready = checked(d.cuGraphInstantiate(captured, 0))
        return lambda: checked(d.cuGraphLaunch(ready, self.stream)) and None


def _from_nvml() -> dict[str, Any]:
    """Driver version, power limit and clocks in use; empty where NVML is not there."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return {
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "power_limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "idle_sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "largest_sm_clock_nvml_mhz": pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_clock_in_use_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        }
    except Exception as error:  # NVML is a convenience here: what failed is reported in the file
        return {"nvml": f"{type(error).__name__}: {error}"}
