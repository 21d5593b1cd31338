"""What a child process has used, as Linux counts it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from glassbox.cli.children import Child

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(child: Child) -> float:
    """Seconds of processor time, user and system, of all its threads."""
    assert child.process is not None
    # after the name in parentheses, which may hold anything, utime and stime are the 12th and 13th (proc_pid_stat(5))
    fields = Path(f"/proc/{child.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mb(child: Child) -> float:
    """The most memory that it has had resident at once, MB."""
    assert child.process is not None
    peak = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{child.process.pid}/status").read_text(), re.MULTILINE)
    assert peak is not None
    return int(peak[1]) / 1024
