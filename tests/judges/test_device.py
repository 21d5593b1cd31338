"""Devices: what is chosen, what a batch may take, what counts as out of memory."""

import sys
from importlib.util import find_spec

import pytest

from judges.device import Device, budget, choose, out_of_memory
from judges.port import JudgeError

pytestmark = [
    pytest.mark.skipif(find_spec("torch") is None, reason="the extra `models` is not installed"),
    pytest.mark.timeout(180),  # the first test imports torch
]


def gpus(monkeypatch, count, free=0):
    import torch  # late: it takes seconds, and every run collects this file

    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 2 * free))


def test_a_gpu_is_chosen_where_there_is_one(monkeypatch):
    gpus(monkeypatch, 0)
    assert choose() == choose("cpu") == Device("cpu", "float32")
    gpus(monkeypatch, 2)
    assert choose() == Device("cuda", "float16")
    assert choose("cuda:1") == Device("cuda:1", "float16")
    assert choose("cpu") == Device("cpu", "float32")


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0", "tpu", "", "cuda:", "cuda:x"])
def test_a_device_that_is_not_there_is_a_sentence(wanted, monkeypatch):
    gpus(monkeypatch, 0)
    with pytest.raises(JudgeError, match="use auto") as raised:
        choose(wanted)
    assert raised.value.cause == "model_missing"
    gpus(monkeypatch, 2)
    with pytest.raises(JudgeError, match="torch sees 2 GPUs"):
        choose("cuda:2")


def test_missing_torch_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(JudgeError, match=r"glassbox\[models\]"):
        choose()


@pytest.mark.parametrize(("free", "units"), [(1 << 40, 8192), (8192 * 200, 8192), (8191 * 200, 4096), (0, 1)])
def test_a_batch_takes_no_more_than_half_of_free_memory(monkeypatch, free, units):
    gpus(monkeypatch, 1, free)
    assert budget(Device("cuda", "float16"), bytes_each=100, most=8192, on_cpu=256) == units
    assert budget(Device("cpu", "float32"), bytes_each=100, most=8192, on_cpu=256) == 256


def test_out_of_memory_is_told_from_other_errors():
    import torch

    assert out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory"))
    assert out_of_memory(MemoryError())
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60)
    assert out_of_memory(raised.value)
    assert not out_of_memory(RuntimeError("shapes do not match"))
    assert not out_of_memory(ValueError("can't allocate memory"))
