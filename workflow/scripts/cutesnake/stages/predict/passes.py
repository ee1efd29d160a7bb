"""Replace PyTorch's own operations by launches that move as many bytes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

BLOCK = 128  # threads of a block in PyTorch's elementwise kernels (aten/src/ATen/native/cuda/thread_constants.h)
VECTOR = 16  # bytes of each tensor that a thread takes (there: the widest vector of one load)
_NOT_READ = ("copy_", "fill_", "zero_")  # they write their first tensor without reading it


class Passes(TorchDispatchMode):
    """Give `sink` a launch per operation that reads and writes tensors.

    The arithmetic is left out: such operations wait for memory. Views move nothing; tensors that are only made (empty,
    zeros) are taken to have been there before the call.
    """

    def __init__(self, sink: Callable[[list[Any]], None]) -> None:
        super().__init__()
        self._sink = sink

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: hiding from `torch.compile` would import its whole compiler.

        PyTorch asks for it once the class is there; one that does not ask takes a second longer.
        """
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        read, written = _moved(func._schema, args, kwargs or {}, made)
        if read and written:
            self._sink([_launch(func._schema.name.split("::")[-1], read, written)])
        return made


def _moved(schema: Any, args: Any, passed: Any, made: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the tensors that an operation reads, and writes; none for a view."""
    read, written = [], []
    for n, argument in enumerate(schema.arguments):
        value = args[n] if n < len(args) else passed.get(argument.name)
        if not isinstance(value, torch.Tensor) or not value.numel():
            continue
        writes = argument.alias_info is not None and argument.alias_info.is_write
        in_place = writes and not argument.kwarg_only and not schema.name.endswith(_NOT_READ)
        written += [value] * writes
        read += [value] * (not writes or in_place)
    if not written and all(result.alias_info is None for result in schema.returns):
        results = made if isinstance(made, (tuple, list)) else [made]
        written = [value for value in results if isinstance(value, torch.Tensor) and value.numel()]
    return read, written


def _launch(name: str, read: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> Any:
    import ptxsim

    vectors = [-(-tensor.numel() * tensor.element_size() // VECTOR) for tensor in (*read, *written)]
    module = ptxsim.Module.from_text(_ptx(name, len(read), len(written)), f"a pass of PyTorch ({name})")
    arguments: list[Any] = []
    for tensor, count in zip((*read, *written), vectors, strict=True):
        storage = torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage())
        arguments += [ptxsim.Pointer(storage), count]
    return ptxsim.launch(module, None, (-(-max(vectors) // BLOCK),), (BLOCK,), arguments)


def _ptx(name: str, reads: int, writes: int) -> str:
    """Return a kernel whose threads load and store a vector of each tensor."""
    tensors = reads + writes
    parameters = ", ".join(f".param .u64 p{n}, .param .u32 n{n}" for n in range(tensors))
    first = """mov.u32 %r0, %ctaid.x;  mov.u32 %r1, %ntid.x;  mov.u32 %r2, %tid.x;  mad.lo.u32 %r0, %r0, %r1, %r2;
  mul.wide.u32 %rd0, %r0, 16;"""
    lines = [first]
    for n in range(tensors):
        lines.append(f"ld.param.u64 %a{n}, [p{n}];  ld.param.u32 %r1, [n{n}];  setp.lt.u32 %p{n}, %r0, %r1;")
        lines.append(f"add.u64 %a{n}, %a{n}, %rd0;")
    lines += [f"@%p{n} ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%a{n}];" for n in range(reads)]
    lines += [f"@%p{n} st.global.v4.u32 [%a{n}], {{%v0, %v1, %v2, %v3}};" for n in range(reads, tensors)]
    declared = f".reg .b32 %r<3>, %v<4>;  .reg .b64 %rd<1>, %a<{tensors}>;  .reg .pred %p<{tensors}>;"
    body = "\n  ".join([declared, "mov.u32 %v0, 0; mov.u32 %v1, 0; mov.u32 %v2, 0; mov.u32 %v3, 0;", *lines, "ret;"])
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n"
    return f"{head}.visible .entry pytorch_{name}({parameters})\n{{\n  {body}\n}}\n"
