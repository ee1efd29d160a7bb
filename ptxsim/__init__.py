"""ptxsim: a functional simulator of PTX for sm_90a and sm_100a on a CPU.

See docs/ptxsim/index.md.
"""

from . import hooks
from .core.adversarial import orders as search_orders
from .core.counts import Counts
from .core.explore import explore
from .core.finding import Finding
from .core.launch import Launch
from .core.result import FindingsError, Result
from .core.run import DEFAULT_CHECKS, run
from .core.schedule import DEFAULT as DEFAULT_SCHEDULES
from .core.schedule import NAMES as SCHEDULES
from .frontend.parser import Module
from .frontend.syntax import Kernel, PtxError
from .frontend.translations import Translations
from .host import makers as _makers  # noqa: F401  (fills Launch.from_*)
from .host.arguments import Pointer, Tensor
from .host.capture import Parameter, capture, signature
from .host.cutile import tile_launch
from .host.direct import launch
from .host.linking import CaptureError
from .isa import opcodes  # noqa: F401  (it fills the table of opcodes)
from .memory.global_memory import Memory
from .timing import DeviceError, DeviceModel, Prediction, numbers_matter, predict

__all__ = [
    "DEFAULT_CHECKS",
    "DEFAULT_SCHEDULES",
    "SCHEDULES",
    "CaptureError",
    "Counts",
    "DeviceError",
    "DeviceModel",
    "Finding",
    "FindingsError",
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
    "explore",
    "hooks",
    "launch",
    "numbers_matter",
    "predict",
    "run",
    "search_orders",
    "signature",
    "tile_launch",
]
