"""Where a model of this process runs and how much it may take at once: all that is asked of torch about the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from judges.port import JudgeError

_NAME = re.compile(r"auto|cpu|cuda(:\d+)?")
_FULL_CPU = ("can't allocate memory", "not enough memory")
"""What torch says in a plain RuntimeError where the machine's memory does not suffice."""


@dataclass(frozen=True)
class Device:
    """`name`: as torch has it. `dtype`: of weights and activations, float16 on a GPU, float32 elsewhere."""

    name: str
    dtype: str

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"


def choose(wanted: str = "auto") -> Device:
    """`auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:N`. Raises `JudgeError` (model_missing)."""
    if not _NAME.fullmatch(wanted):
        raise JudgeError("model_missing", f"there is no device {wanted!r}; use auto, cpu, cuda or cuda:N")
    try:
        import torch
    except ModuleNotFoundError:
        raise JudgeError(
            "model_missing", "torch is not installed; install GlassBox with its extra: pip install 'glassbox[models]'"
        ) from None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    name = wanted if wanted != "auto" else "cuda" if count else "cpu"
    if name != "cpu" and int(name.partition(":")[2] or 0) >= count:
        raise JudgeError("model_missing", f"device {wanted}: torch sees {count} GPUs; use auto or cpu")
    return Device(name, "float16" if name != "cpu" else "float32")


def budget(device: Device, *, bytes_each: int, most: int, on_cpu: int) -> int:
    """The units (sub-tokens, say) of a batch: `on_cpu` without a GPU, else `most`, halved until units of `bytes_each`
    take no more than half of the GPU's free memory. Halved, so that machines with about the same room work alike."""
    if not device.is_gpu:
        return on_cpu
    import torch

    free, _ = torch.cuda.mem_get_info(torch.device(device.name))
    units = most
    while units > 1 and units * bytes_each > free // 2:
        units //= 2
    return units


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception of a model says that memory does not hold the batch."""
    import torch

    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _FULL_CPU)
