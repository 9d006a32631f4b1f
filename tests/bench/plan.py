"""plan.py - how near the memory and step time of gtrain plan are to those of runs, on one and two ranks in each mode.

The rates come from gtrain bench calibrate, anew in each round, because a machine's rates change within minutes; then each mode is planned
and run. Both sides are of undisturbed steps, the shortest of many, because other programs only make steps longer. The table has the round
whose ratio of planned time to the run's is the median.

Memory is the largest of all processes of a run together, divided by the ranks, less what a process with a tiny model has. A page that
ranks share counts once. Two ranks have one thread each, one rank has two.

--check fails where memory is more than 5 % or time more than 15 % from the plan. It wants two processors that have nothing else to do.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
Model = namedtuple("Model", "name data batch")
Mode = namedtuple("Mode", "name nproc options")

MODELS = [
    Model("gpt:layers=6,heads=6,width=384,block=256,vocab=256", "random", 8),
    Model("gpt2:block=128", "random", 2),
    Model("resnet20", "random", 128),
]
TINY = Model("mlp:4,4", "random", 1)
ONE_RANK = Mode("one rank", 1, [])
MODES = [ONE_RANK, *(Mode(name, 2, ["--parallel", name]) for name in ("ddp", "mirrored", "zero1", "zero2", "zero3")),
         Mode("pipeline", 2, ["--pipeline-parallel", "2"]), Mode("tensor", 2, ["--tensor-parallel", "2"])]
MEMORY_WITHIN, TIME_WITHIN = 0.05, 0.15


class Refused(Exception):
    """A command of gtrain failed; its first line of error."""


def answer(*command):
    """The JSON document that a command of gtrain prints."""
    ran = subprocess.run([GTRAIN, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode:
        raise Refused(ran.stderr.strip().splitlines()[0].removeprefix("gtrain: error: "))
    return json.loads(ran.stdout)


def options_of(model):
    return ["--model", model.name, "--data", model.data, "--batch", str(model.batch)]


def training(out, model, mode, steps, *more):
    return ["train", *options_of(model), *mode.options, "--nproc", str(mode.nproc), "--threads", str(2 // mode.nproc),
            "--steps", str(steps), "--save-every", "0", "--out", f"{out}/run", "--json", "-q", *more]


def calibrate(folder, model):
    """Measure the rates of this machine, and return the file that has them."""
    answer("bench", "calibrate", "--json", "-q", "-o", f"{folder}/rates.json", *options_of(model))
    return f"{folder}/rates.json"


def plan_of(rates, model, mode):
    return answer("plan", "--json", "-q", "--cluster", f"1x{mode.nproc}xcpu", "--calibration", rates, "--", *options_of(model), *mode.options)


def step_seconds(folder, model, mode, steps):
    """The shortest of a run's profiled steps: other programs only make them longer."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        answer(*training(out, model, mode, steps + 2, "--profile", f"wait=1,warmup=1,active={steps}"))
        with gzip.open(f"{out}/run/trace/rank-0.json.gz") as trace:
            return min(1e-6 * event["dur"] for event in json.load(trace)["traceEvents"] if event["name"] == "step")


def resident(pid):
    """Bytes of memory that a process has; of pages that others share, its part."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))
    except OSError:
        return 0


def family(pid):
    """A process and its children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [pid, *(one for child in f.read().split() for one in family(int(child)))]
    except OSError:
        return [pid]


def steps_done(out):
    try:
        with open(f"{out}/run/metrics.jsonl") as f:
            return len(f.readlines())
    except OSError:
        return 0


def memory(folder, model, mode):
    """The largest memory of all processes of a run together, while it trains three steps. It is killed then, and saves nothing."""
    largest = 0
    with tempfile.TemporaryDirectory(dir=folder) as out:
        with subprocess.Popen([GTRAIN, *training(out, model, mode, 1000, "--log-every", "1")]) as run:
            while run.poll() is None:
                largest = max(largest, sum(resident(pid) for pid in family(run.pid)))
                if steps_done(out) >= 3:
                    run.kill()
                time.sleep(0.05)
    return largest


def measure(folder, model, rounds, steps):
    """Of each mode the measured rounds: ratio of planned time to the run's, seconds of the run, plan; or why it cannot be planned."""
    measured, refused = {}, {}
    for _ in range(rounds):
        rates = calibrate(folder, model)
        for mode in MODES:
            try:
                plan = plan_of(rates, model, mode)
            except Refused as why:
                refused[mode.name] = why
                continue
            seconds = step_seconds(folder, model, mode, steps)
            measured.setdefault(mode.name, []).append((plan["step_s"] / seconds, seconds, plan))
    return measured, refused


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", type=int, default=15)
    options.add_argument("--check", action="store_true")
    options.add_argument("--model", default="", help="only models whose name has this in it")
    o = options.parse_args()
    missed = 0
    print(f"{'model':<52} {'mode':<10} {'memory':>9} {'plan':>9} {'':>6} {'step':>9} {'plan':>9}")
    with tempfile.TemporaryDirectory() as folder:
        program = memory(folder, TINY, ONE_RANK)
        for model in (m for m in MODELS if o.model in m.name):
            measured, refused = measure(folder, model, o.rounds, o.steps)
            for mode in MODES:
                row = f"{model.name:<52} {mode.name:<10}"
                if mode.name in refused:
                    print(row, refused[mode.name])
                    continue
                of_time, seconds, plan = sorted(measured[mode.name], key=lambda m: m[0])[len(measured[mode.name]) // 2]
                planned = statistics.mean(stage["memory_bytes"]["total"] for stage in plan["stages"])
                held = memory(folder, model, mode) / mode.nproc - program
                bad = abs(planned / held - 1) > MEMORY_WITHIN or abs(of_time - 1) > TIME_WITHIN
                missed += bad
                print(f"{row} {held / 1e6:>6.0f} MB {planned / 1e6:>6.0f} MB {100 * (planned / held - 1):>+4.0f} % {1e3 * seconds:>6.1f} ms "
                      f"{1e3 * plan['step_s']:>6.1f} ms {100 * (of_time - 1):>+4.0f} %" + (" MISSED" if bad else ""), flush=True)
    sys.exit(1 if o.check and missed else 0)


if __name__ == "__main__":
    main()
