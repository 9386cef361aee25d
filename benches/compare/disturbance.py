"""Disturbance of a measurement by other processes and the hypervisor, on Linux."""
import os
import resource
import time
from pathlib import Path

# Default limits of the CPU time of others, as a share of all cores, above which a run is dropped.
# An idle Linux uses a few thousandths; a clock tick is a hundredth of a second.
LIMITS = {"steal": 0.02, "others": 0.03}

STAT = Path("/proc/stat")


def visible():
    """Whether the system reports its CPU times (Linux: proc_stat(5))."""
    return STAT.exists()


def _seconds():
    """Busy and stolen time of all cores in total, and the CPU time of this process's children."""
    # user nice system idle iowait irq softirq steal; guest time is within user's
    fields = STAT.read_text().splitlines()[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = (
        int(field) / os.sysconf("SC_CLK_TCK") for field in fields)
    busy = user + nice + system + irq + softirq
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return busy, steal, sum(u.ru_utime + u.ru_stime for u in used)


class Watch:
    """Measures the CPU times of the machine while a child process runs.

    `shares` then has the fractions of all cores' time used by other processes and stolen by the
    hypervisor; it is None where the system does not report them.
    """

    def __enter__(self):
        self.shares = None
        if visible():
            self.begun = time.monotonic(), *_seconds()
        return self

    def __exit__(self, *_):
        if not visible():
            return
        elapsed, busy, steal, ours = (
            now - then for now, then in zip((time.monotonic(), *_seconds()), self.begun))
        whole = elapsed * os.cpu_count()
        self.shares = {"others": max(busy - ours, 0) / whole, "steal": steal / whole}


def disturbed(shares, limits):
    return shares is not None and any(shares[kind] > limit for kind, limit in limits.items())
