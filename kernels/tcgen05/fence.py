"""Order of tensor-memory work against barriers between threads: PTX ISA, tcgen05.fence."""

from cutlass._mlir.dialects import nvvm
from cutlass.cutlass_dsl import dsl_user_op


@dsl_user_op
def before_thread_sync(*, loc=None, ip=None) -> None:
    """Order this thread's tensor memory accesses before the barrier it arrives on next."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.BEFORE_THREAD_SYNC, loc=loc, ip=ip)


@dsl_user_op
def after_thread_sync(*, loc=None, ip=None) -> None:
    """Order this thread's later tensor memory accesses after the barrier it waited for."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.AFTER_THREAD_SYNC, loc=loc, ip=ip)
