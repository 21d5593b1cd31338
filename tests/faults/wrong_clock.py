"""Imported first of all: the wall clock of this process is wrong by the seconds that the file `FAULT_CLOCK` says.

In Python alone. A library that does it below, such as libfaketime, has librdkafka wait for hours.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

if "FAULT_CLOCK" in os.environ:
    _CLOCK = Path(os.environ["FAULT_CLOCK"])
    _true, _true_ns = time.time, time.time_ns

    def _wrong() -> float:
        return float(_CLOCK.read_text() or 0)

    time.time = lambda: _true() + _wrong()
    time.time_ns = lambda: _true_ns() + int(_wrong() * 10**9)
