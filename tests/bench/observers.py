"""observers.py - what it costs to watch a run: metrics of each step, event files, the line on a terminal, a profile.

The model is nanoGPT's for a CPU (4 layers, 4 heads, width 128, block 64, batch 12). Observers work between two steps, so a profile shows
their time: from the end of a step to the start of the next, divided by the time from one start to the next. Whole runs, with and without
observers, cannot show it: they differ by 10 % for other reasons.

The profile itself works within steps. It records some of a run and leaves some out, in turns. The cost is the ratio, less 1, of the
step that is faster than 19 of 20, of both kinds: other programs only make steps longer.

A row has the median of the rounds. --check fails where one costs more than 1 %.
"""
import argparse
import gzip
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
BATCH = 12
MODEL = ["--model", "gpt:layers=4,heads=4,width=128,block=64,vocab=65", "--data", "random,samples=4096", "--batch", str(BATCH)]
WITHIN = 0.01
#    observer, options, whether it has a terminal
OBSERVERS = [
    ("none", ["--quiet", "--log-every", "1000000"], False),
    ("metrics of each step", ["--quiet", "--log-every", "1"], False),
    ("event files of each step", ["--quiet", "--log-every", "1", "--tensorboard"], False),
    ("the line on a terminal", ["--log-every", "10"], True),
    ("all of them", ["--log-every", "10", "--tensorboard"], True),
]
PROFILED = LEFT_OUT = 5


def drain(fd):
    """Read what the program writes to its terminal until it ends."""
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass


def train(out, options, terminal=False):
    command = [GTRAIN, "train", *MODEL, "--save-every", "0", "--out", f"{out}/run", "--json", *options]
    if not terminal:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return
    ours, theirs = pty.openpty()
    reader = threading.Thread(target=drain, args=(ours,))
    reader.start()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    reader.join()
    os.close(ours)


def step_events(out):
    """(start, duration) of each profiled step, in microseconds."""
    with gzip.open(f"{out}/run/trace/rank-0.json.gz") as trace:
        return [(event["ts"], event["dur"]) for event in json.load(trace)["traceEvents"] if event["name"] == "step"]


def share_between(folder, options, terminal, steps):
    """The time between steps as a share of all, and the mean time from one start to the next."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        train(out, [*options, "--steps", str(steps + 3), "--profile", f"wait=2,warmup=1,active={steps}"], terminal)
        events = step_events(out)
    whole = events[-1][0] - events[0][0]
    return 1 - sum(length for _, length in events[:-1]) / whole, 1e-6 * whole / (len(events) - 1)


def cost_of_profile(folder, steps):
    """What a profiled step takes more than one that is not, as a share, and the time of the latter."""
    cycles = max(4 * steps // PROFILED, 1)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        train(out, ["--quiet", "--log-every", "1", "--steps", str(cycles * (LEFT_OUT + PROFILED)),
                    "--profile", f"wait={LEFT_OUT - 1},warmup=1,active={PROFILED},repeat={cycles}"])
        with open(f"{out}/run/metrics.jsonl") as f:
            times = [(row["step"], BATCH / row["samples_per_s"]) for row in map(json.loads, f) if row["split"] == "train"]
    # The first step after a cycle writes the cycle's file; the last before a cycle is a warm-up.
    without, profiled = (statistics.quantiles((time for step, time in times if (step - 1) % (LEFT_OUT + PROFILED) in part), n=20)[0]
                         for part in (range(1, LEFT_OUT - 1), range(LEFT_OUT, LEFT_OUT + PROFILED)))
    return profiled / without - 1, without


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--steps", type=int, default=150)
    options.add_argument("--check", action="store_true")
    o = options.parse_args()
    missed = 0
    rows = [(name, lambda folder, w=watched, t=terminal: share_between(folder, w, t, o.steps)) for name, watched, terminal in OBSERVERS]
    rows.append(("a profile", lambda folder: cost_of_profile(folder, o.steps)))
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'observer':<28} {'a step':>10} {'cost':>8} {'least':>8} {'most':>8}")
        for name, measure in rows:
            costs, times = zip(*(measure(folder) for _ in range(o.rounds)))
            cost = statistics.median(costs)
            missed += cost > WITHIN
            print(f"{name:<28} {1e3 * statistics.median(times):>7.2f} ms {100 * cost:>6.2f} % {100 * min(costs):>6.2f} % {100 * max(costs):>6.2f} %"
                  + (" MISSED" if cost > WITHIN else ""), flush=True)
    sys.exit(1 if o.check and missed else 0)


if __name__ == "__main__":
    main()
