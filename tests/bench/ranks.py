"""ranks.py - how much faster two ranks train than one, each with one thread, and how much of their all-reduce is hidden.

Both have the same batch per rank, so two do twice the work per step. The last column is what a step of one rank takes longer
with --reproducible. Rounds of all take turns; a row has the medians. --check fails where a floor does not hold. It wants two
processors that have nothing else to do.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
#        model, data, batch, steps that are measured, floor of the speed-up
CASES = [
    ("gpt:layers=6,heads=6,width=384,block=256", "text:{}/text.txt", 8, 4, 1.9),
    ("resnet20", "random:,samples=4096", 128, 10, 1.9),
    ("gpt2:block=64", "text:{}/text.txt,level=byte", 4, 4, 1.8),
]


def step(folder, model, data, batch, steps, nproc, *more):
    with tempfile.TemporaryDirectory(dir=folder) as out:
        text = subprocess.run([GTRAIN, "train", "--model", model, "--data", data.format(folder), "--batch", str(batch), "--nproc", str(nproc),
                               "--threads", "1", "--steps", str(steps + 2), "--profile", f"wait=1,warmup=1,active={steps}", "--save-every", "0",
                               "--out", f"{out}/run", "--json", "-q", *more], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text)["profile"]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--check", action="store_true")
    options.add_argument("--model", default="", help="only models whose name has this in it")
    o = options.parse_args()
    missed = 0
    print(f"{'model':<44} {'1 rank':>10} {'2 ranks':>10} {'speed-up':>9} {'floor':>6} {'all-reduce':>11} {'hidden':>7} {'reproducible':>13}")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/text.txt", "w") as f:
            f.write("the quick brown fox jumps over the lazy dog, and goes on. " * 2000)
        for model, data, batch, steps, floor in (c for c in CASES if o.model in c[0]):
            runs = {(1,): [], (2,): [], (1, "--reproducible"): []}
            for _ in range(o.rounds):
                for how, profiles in runs.items():
                    profiles.append(step(folder, model, data, batch, steps, *how))
            one, two, parts = (statistics.median(p["step_s"] for p in profiles) for profiles in runs.values())
            sums, hidden = (statistics.median(p[key] for p in runs[2,]) for key in ("collectives_s", "hidden"))
            up = 2 * one / two
            missed += up < floor
            print(f"{model:<44} {1e3 * one:>7.1f} ms {1e3 * two:>7.1f} ms {up:>9.2f} {floor:>6} {1e3 * sums:>8.1f} ms {100 * hidden:>5.0f} % "
                  f"{100 * (parts / one - 1):>+11.0f} %"
                  + (" MISSED" if up < floor else ""), flush=True)
    sys.exit(1 if o.check and missed else 0)


if __name__ == "__main__":
    main()
