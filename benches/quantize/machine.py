"""The machine and the programs of a measurement, and runs of programs with their time and memory."""

import datetime
import os
import platform
import subprocess
import tempfile
import time


def cpu():
    with open("/proc/cpuinfo") as lines:
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0]}, {len(models)} logical CPUs" if models else platform.processor()


def about(**programs):
    return {"date": datetime.date.today().isoformat(), "cpu": cpu(), "system": platform.platform(), **programs}


def resident(pid):
    """The greatest resident size of a process so far, in bytes."""
    with open(f"/proc/{pid}/status") as lines:
        found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return 1024 * found[0] if found else 0


def run(words, **variables):
    """The output of a program, or None if it failed; its seconds, CPU seconds and greatest resident size in bytes; and
    what it wrote to standard error."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as notes:
        begin = time.monotonic()
        process = subprocess.Popen(
            [str(word) for word in words], stdout=out, stderr=notes, env={**os.environ, **variables}
        )
        # the operating system's own maximum has that of this process, from which the other one was forked
        pid, peak = 0, 0
        while not pid:
            peak = max(peak, resident(process.pid))
            time.sleep(0.01)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        notes.seek(0)
        text, said = (file.read().decode(errors="replace") for file in (out, notes))
    figures = {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_bytes": peak,
    }
    return (text if process.returncode == 0 else None), figures, said
