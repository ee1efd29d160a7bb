"""ptxsim: a functional simulator of PTX for sm_90a and sm_100a on a CPU. See docs/ptxsim.md."""

from . import access, alu, collective, convert, copies, mbarrier, tcgen05, tmem, wgmma  # noqa: F401  (they register their opcodes)
from .capture import CaptureError, Pointer, Tensor, capture
from .counts import Counts
from .direct import launch
from .machine import Finding, Launch
from .memory import Memory
from .parser import Kernel, Module, PtxError
from .run import DEFAULT_CHECKS, Result, run
from .schedule import DEFAULT as DEFAULT_SCHEDULES
from .schedule import NAMES as SCHEDULES

__all__ = ["CaptureError", "Counts", "DEFAULT_CHECKS", "DEFAULT_SCHEDULES", "Finding", "Kernel", "Launch", "Memory",
           "Module", "Pointer", "PtxError", "Result", "SCHEDULES", "Tensor", "capture", "launch", "run"]
