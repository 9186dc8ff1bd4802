"""How much of this machine's cores others use: what they take is not the daemon's to divide."""

import os

TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """All cores' time that was not idle."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def seconds_of(pid):
    """A process's, with those of its children that have ended."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def children_of(pid):
    children = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            children += map(int, file.read().split())
    return children


class Others:
    """What others than some processes, and their children, use of the cores."""

    def __init__(self, pids):
        self._pids = [os.getpid(), *pids, *(child for pid in pids for child in children_of(pid))]
        self._before = self._now()

    def _now(self):
        return busy_seconds(), sum(map(seconds_of, self._pids))

    def cores(self, seconds):
        busy, ours = (now - before for now, before in zip(self._now(), self._before, strict=True))
        return max(0.0, busy - ours) / seconds
