"""observers.py - what it costs to watch a run: metrics of each step, event files, the line on a terminal, health checks of values.

The model is nanoGPT's for a CPU (4 layers, 4 heads, width 128, block 64, batch 12). Runs with and without an observer take turns; a row
has the median of the ratios of their times. --check fails where one costs more than 1 %. It wants processors that have nothing else to
do.
"""
import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
MODEL = ["--model", "gpt:layers=4,heads=4,width=128,block=64,vocab=65", "--data", "random,samples=4096", "--batch", "12"]
BARE = ["--quiet", "--log-every", "1000000"]
WITHIN = 1.01
#    observer, options, whether it has a terminal
OBSERVERS = [
    ("metrics of each step", ["--quiet", "--log-every", "1"], False),
    ("event files of each step", ["--quiet", "--log-every", "1", "--tensorboard"], False),
    ("the line on a terminal", ["--log-every", "10"], True),
    ("all of them", ["--log-every", "10", "--tensorboard"], True),
    ("a profile of 5 steps", [*BARE, "--profile", "wait=5,warmup=1,active=5"], False),
]


def drain(fd):
    """Read what the program writes to its terminal until it ends."""
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass


def seconds(folder, options, terminal, steps):
    """Time of the steps of a run."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [GTRAIN, "train", *MODEL, "--steps", str(steps), "--save-every", "0", "--out", f"{out}/run", "--json", *options]
        if not terminal:
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        else:
            ours, theirs = pty.openpty()
            reader = threading.Thread(target=drain, args=(ours,))
            reader.start()
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=theirs).stdout
            os.close(theirs)
            reader.join()
            os.close(ours)
    return json.loads(text)["train_s"]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=150)
    options.add_argument("--check", action="store_true")
    o = options.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'observer':<28} {'a step without':>15} {'ratio':>7} {'least':>7} {'most':>7}")
        for name, watched, terminal in OBSERVERS:
            rounds = []
            for i in range(o.rounds):
                # Each goes first in half of the rounds.
                times = {way: seconds(folder, watched if way else BARE, terminal and way, o.steps) for way in ((0, 1), (1, 0))[i % 2]}
                rounds.append((times[1] / times[0], times[0]))
            ratio = statistics.median(r for r, _ in rounds)
            missed += ratio > WITHIN
            print(f"{name:<28} {1e3 * statistics.median(t for _, t in rounds) / o.steps:>12.2f} ms {ratio:>7.3f} {min(rounds)[0]:>7.3f} {max(rounds)[0]:>7.3f}"
                  + (" MISSED" if ratio > WITHIN else ""), flush=True)
    sys.exit(1 if o.check and missed else 0)


if __name__ == "__main__":
    main()
