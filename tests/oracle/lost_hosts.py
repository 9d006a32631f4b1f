#!/usr/bin/env python3
"""lost_hosts.py - hosts that are lost: named in time, and the job goes on, on fewer ranks, too (TAP)."""
import os
import random
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("common", "chaos")]
import hosts as chaos  # noqa: E402
import tap  # noqa: E402
from spaces import Hosts, no_spaces  # noqa: E402
from training import GTRAIN, apart, curve, make_data  # noqa: E402

SEED = int(os.environ.get("SEED", "1"))


def wait_for_checkpoint(folder):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (os.path.isdir(folder) and os.listdir(folder)):
        time.sleep(0.02)


def fewer(folder, hosts):
    """Rank 3 is killed; rank 0 tells how to go on, and two ranks do."""
    ranks = chaos.start(hosts, folder, "fewer")
    wait_for_checkpoint(f"{folder}/fewer/checkpoints")
    os.kill(ranks[3].pid, signal.SIGKILL)
    said = [rank.communicate(timeout=200)[1] for rank in ranks]
    states = [rank.returncode for rank in ranks]
    wanted = ("rank 3 on host hostb died ", "the last checkpoint is that of step ",
              f"; go on with: gtrain train --resume auto --out {folder}/fewer")
    good = states == [1, 1, 1, -signal.SIGKILL] and all(text in said[0] for text in wanted)
    yield "a rank that is killed is named by rank 0, with the command that resumes", "" if good else f"{states}: {said}"
    ranks = chaos.start(hosts, folder, "fewer", restart=1, each=1)
    said = [rank.communicate(timeout=200)[1] for rank in ranks]
    # The first line after the restart is of fewer steps.
    far = apart(curve(f"{folder}/fewer")[-2:], curve(f"{folder}/{chaos.UNDISTURBED}")[-2:])
    good = not any(rank.returncode for rank in ranks) and far < 1e-5
    yield "... and fewer ranks, which the launcher starts again, go on from the last checkpoint", "" if good else f"{far}: {said}"


def lost(folder):
    why = no_spaces(folder)
    if why:
        yield f"hosts that are lost # SKIP {why}", ""
        return
    make_data(folder)
    with Hosts(folder) as hosts:
        rng = random.Random(SEED)
        strangers = chaos.Strangers(hosts, SEED)
        strangers.start()
        acts = (chaos.Killed, chaos.Stopped, rng.choice([chaos.Cut, chaos.Dropped]))
        for what, problems in chaos.moments(hosts, folder, rng, len(acts), acts):
            yield f"{what.split(',')[0]}, at a random moment (SEED={SEED}): named in time, and it goes on with the same bits", \
                "\n".join([what, *problems]) if problems else ""
        strangers.end()
        yield "... while other programs connect to the port", "" if strangers.count > 20 else f"{strangers.count} connections"
        yield from fewer(folder, hosts)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go
    sys.exit(tap.run((lost,), GTRAIN, sys.argv[1:]))
