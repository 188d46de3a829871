"""How often the kernel has ended a process for want of memory."""

from __future__ import annotations

from pathlib import Path

from curator_bench.measure.cgroup import memory_kills


def test_the_kernels_own_counter_is_read(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 12\noom_kill 3\noom_kill_other 9\n")
    assert memory_kills(vmstat) == 3


def test_nobody_counts_everywhere(tmp_path: Path) -> None:
    assert memory_kills(tmp_path / "nothing") == 0
    assert memory_kills() >= 0
