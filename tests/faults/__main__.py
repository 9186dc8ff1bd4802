"""python -m tests.faults [SECONDS [SEED [SCENARIO...]]]: see tools/faults.sh."""

import os
import sys
import time
import traceback

from .scenarios import SCENARIOS


def main(arguments):
    seconds = float(arguments[0]) if arguments else 60
    seed = int(arguments[1]) if len(arguments) > 1 else int.from_bytes(os.urandom(3), "little")
    names = arguments[2:] or list(SCENARIOS)
    end = time.monotonic() + seconds
    failed = rounds = cuts = 0
    # Rounds grow with the time there is, up to half a minute each.
    length = min(30.0, max(3.0, seconds / len(names) / 2))
    while rounds == 0 or time.monotonic() < end:
        for name in names:
            try:
                cuts += SCENARIOS[name](seed, length) or 0
            except Exception:
                failed += 1
                print(f"FAILED: {name}, seed {seed}", flush=True)
                traceback.print_exc()
            if time.monotonic() > end and rounds > 0:
                break
        seed += 1
        rounds += 1
    print(f"{rounds} rounds, {failed} failures, {cuts} cuts", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
