"""What counting, logging and being scraped each second cost an operator: CPU time of a daemon for
each small operator, divided by that of one that is not scraped, or of another build.
`tools/bench.sh observability`; --against=CHXD names the other build. Writes nothing."""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading
import urllib.request

import chx


class Daemon:
    """A daemon and a session on it; scraped each second if it can be."""

    def __init__(self, chxd, folder, name, flags=(), scraped=False):
        self.address = f"unix:{folder}/{name}"
        self.log = pathlib.Path(folder, f"{name}.log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [chxd, f"--listen={self.address}", "--log-format=json", *flags],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.process.stdout.readline()
        self.session = chx.connect(self.address)
        self.x = chx.ones(3, device=self.session.devices[0])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._scrape if scraped else self._stop.wait)
        self._thread.start()

    def _scrape(self):
        web = self.log.read_text().split('"http":"')[1].split('"')[0]
        while not self._stop.wait(1):
            urllib.request.urlopen(f"http://{web}/metrics", timeout=10).read()

    def cpu_nanoseconds(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def cost(self, operators):
        """CPU nanoseconds of the daemon for one operator."""
        x = self.x
        self.session.synchronize()
        before = self.cpu_nanoseconds()
        for _ in range(operators):
            x = x * 1.0
        self.session.synchronize()
        return (self.cpu_nanoseconds() - before) / operators

    def stop(self):
        self._stop.set()
        self._thread.join()
        self.process.kill()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chxd", required=True)
    parser.add_argument("--against", help="another build; by default the same one, not scraped")
    parser.add_argument("--operators", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=101)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--metrics-listen=127.0.0.1:0", "--metrics-open", "--log-level=info"]
        seen = Daemon(args.chxd, folder, "seen", flags, scraped=True)
        plain_flags = [] if args.against else ["--slow-command=0s", "--log-level=off"]
        plain = Daemon(args.against or args.chxd, folder, "plain", plain_flags)
        try:
            ratios = []
            for i in range(args.rounds + 1):
                order = [seen, plain] if i % 2 else [plain, seen]
                costs = {daemon: daemon.cost(args.operators) for daemon in order}
                if i > 0:  # the first round is for caches
                    ratios.append(costs[seen] / costs[plain])
                    print(f"{costs[seen]:.0f} ns, {costs[plain]:.0f} ns without", flush=True)
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"cost of an operator: {middle:.3f} of that without ({low:.3f} to {high:.3f})")
        finally:
            seen.stop()
            plain.stop()
    os._exit(0)  # the sessions are gone with their daemons


if __name__ == "__main__":
    main()
