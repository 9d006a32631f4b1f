#!/usr/bin/python3
# layouts.py - random ways to divide work among ranks, as dry runs: each prints its plan, or one line that says why not.
"""
A layout is a small model with random sizes and a random choice of ranks, modes and options. Many are impossible: that is an error
with status 2, never a crash. A failure prints its command; `layouts.py SEED [COUNT]` draws other layouts.
"""
import concurrent.futures
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import outcome
import program
import tap

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 43
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 1200 if tap.THOROUGH and not os.environ.get("SANITIZE") else 200
LIMIT = 60  # seconds
GROUP = 100  # layouts that are one line of the test


def kinds():
    """Models by the settings that they have: presets of one network are one kind."""
    found = {}
    for model in program.models():
        found.setdefault(tuple(s["key"] for s in model["settings"]), []).append(model)
    return list(found.values())


def small(key, form, few, rng):
    """A small value of a setting, or None: its default."""
    if "|" in form:
        return rng.choice([None, *form.split("|")])
    sizes = {"layers": [few], "heads": [1, 2, 4], "kv_heads": [1, 2], "width": [8, 16, 24], "block": [4, 7, 8], "vocab": [7, 16],
             "image": [8, 32], "patch": [2, 4], "classes": [2, 3, 4, 6, 8], "dropout": [None, 0.1]}
    return rng.choice(sizes.get(key, [None]))


def draw_model(rng):
    model, few = rng.choice(rng.choice(kinds())), rng.choice([1, 2, 3, 4])
    values = [(s["key"], small(s["key"], s["form"], few, rng)) for s in model["settings"] if s["key"]]
    if len(values) < len(model["settings"]):  # a list of sizes
        return f"{model['name']}:4," + "".join(f"{rng.choice([1, 2, 3, 4, 8])}," for _ in range(few)) + str(rng.choice([2, 3, 4, 6, 8]))
    return f"{model['name']}:" * bool(values) + ",".join(f"{k}={v}" for k, v in values if v is not None) or model["name"]


def layout(rng):
    """The arguments of one dry run."""
    size = rng.choice([1, 2, 2, 4, 4, 6, 8])
    args = ["train", "--model", draw_model(rng), "--data", "random", "--steps", "2", "--batch", str(rng.choice([1, 2, 3, 4, 8])), "--nproc", str(size)]
    numbers = {"--tensor-parallel": [1, 2, 4], "--pipeline-parallel": [1, 2, 3], "--accumulate": [1, 2, 3], "--clip": [0, 1]}
    for name, values in numbers.items():
        if rng.random() < 0.5:
            args += [name, str(rng.choice(values))]
    words = [["--sequence-parallel"], ["--sync-bn"], ["--reproducible"], [f"--recompute={rng.choice(program.words('recompute'))}"], ["--chunks", "2"], ["--ema", "0.9"],
             ["--schedule", rng.choice(program.words("schedule"))], ["--amp", rng.choice(program.words("amp"))], ["--optimizer", rng.choice(program.words("optimizer"))],
             ["--parallel", rng.choice(program.words("parallel"))], ["--backend", rng.choice(program.words("backend"))],
             ["--freeze", rng.choice(["*bias", "!*bias"])], ["--bucket-size", "1K"]]
    for option in words:
        if rng.random() < (0.5 if option == ["--sequence-parallel"] and "--tensor-parallel" in args else 0.2):
            args += option
    return [*args, "--dry-run"]


def ended(args):
    """How the dry run ended."""
    with outcome.Running([GTRAIN, *args], env={**os.environ, "OMP_NUM_THREADS": "1"}) as command:
        return command.finish(LIMIT)


def problem(dry_run):
    """ "" if the dry run printed a plan, or one error, else a text with its command."""
    wrong = outcome.problems(dry_run)
    if not wrong and dry_run.status and len(dry_run.errors()) != 1:
        wrong = ["not one error: " + dry_run.err]
    if not wrong and not dry_run.status and b"memory per" not in dry_run.out:
        wrong = ["no plan"]
    return "\n".join([*wrong, "gtrain " + " ".join(dry_run.args[1:])]) if wrong else ""


def layouts(_folder):
    """COUNT random layouts."""
    rng = random.Random(SEED)
    drawn = [layout(rng) for _ in range(COUNT)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(ended, drawn))
    for first in range(0, COUNT, GROUP):
        part = results[first:first + GROUP]
        yield f"layouts {first} to {first + len(part) - 1} of seed {SEED}", "\n".join(filter(None, map(problem, part)))
    plans = sum(dry_run.status == 0 for dry_run in results)
    yield f"a fifth or more of {COUNT} layouts have a plan", "" if 5 * plans >= COUNT else f"{plans} have"


if __name__ == "__main__":
    sys.exit(tap.run([layouts], GTRAIN))
