"""ptxsim: a functional simulator of PTX for sm_90a and sm_100a on a CPU. See docs/ptxsim.md."""

from . import isa  # noqa: F401  (it fills the table of opcodes)
from .aim import orders as search_orders
from .arguments import Pointer, Tensor
from .capture import Parameter, capture, signature
from .counts import Counts
from .direct import launch
from .finding import Finding
from .launch import Launch
from .linking import CaptureError
from .memory import Memory
from .parser import Module
from .run import DEFAULT_CHECKS, Result, run
from .schedule import DEFAULT as DEFAULT_SCHEDULES
from .schedule import NAMES as SCHEDULES
from .syntax import Kernel, PtxError
from .tile import tile_launch
from .timing import DeviceError, DeviceModel, Prediction, numbers_matter, predict
from .translations import Translations

__all__ = [
    "DEFAULT_CHECKS",
    "DEFAULT_SCHEDULES",
    "SCHEDULES",
    "CaptureError",
    "Counts",
    "DeviceError",
    "DeviceModel",
    "Finding",
    "Kernel",
    "Launch",
    "Memory",
    "Module",
    "Parameter",
    "Pointer",
    "Prediction",
    "PtxError",
    "Result",
    "Tensor",
    "Translations",
    "capture",
    "launch",
    "numbers_matter",
    "predict",
    "run",
    "search_orders",
    "signature",
    "tile_launch",
]
