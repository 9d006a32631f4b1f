#!/usr/bin/python3
# race_inplace.py - processes that edit one file in place at once: race_inplace.py GTRAIN [--runs N | --seconds S] [--seed N].
"""Several gtrain processes edit one small checkpoint in place at random. No command may end by a signal; one that fails
says so in one line; and whatever the order, the file is sound in the end."""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

PROCESSES = 3
ROUND = 30  # commands on one copy of a file; then a fresh one
TIMEOUT = 120
EDITS = (
    ("strip-module",),
    ("add-module",),
    ("add-module", "--prefix", "a.much.longer.prefix.than.the.others."),
    ("rename", "--map", "^(module[.])*=x."),
    ("rename", "--map", "^x[.]="),
    ("remap", "--map", "*=cpu"),
    ("remap", "--map", "cpu=cuda:1"),
)
FORMATS = (("safetensors", "safetensors"), ("pth", "pth"), ("legacy", "pth"), ("npz", "npz"))


def make_files(gtrain, folder):
    """A small file of each format that can be edited in place."""
    run = os.path.join(folder, "run")
    subprocess.run([gtrain, "train", "--model", "mlp:4,3,2", "--data", "random", "--steps", "1", "--quiet", "--out", run],
                   check=True, stdin=subprocess.DEVNULL, capture_output=True)
    made = []
    for to, ending in FORMATS:
        made.append(os.path.join(folder, "%s.%s" % (to, ending)))
        subprocess.run([gtrain, "ckpt", "convert", os.path.join(run, "model.pth"), "-o", made[-1], "--to", to],
                       check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return made


def wrong(status, output):
    """What is wrong with a command that ended so, or None."""
    lines = [line for line in output.splitlines() if line.strip()]
    if status < 0 or status > 2:
        return "ended with status %d" % status
    errors = [line for line in lines if "error:" in line]
    if status and len(errors) != 1:
        return "failed with %d lines of error" % len(errors)
    if "ERROR: AddressSanitizer" in output or "runtime error" in output:
        return "a sanitizer spoke"
    return None


class Race:
    def __init__(self, gtrain, seed):
        self.gtrain, self.random = gtrain, random.Random(seed)
        self.tried, self.refused, self.failures = 0, 0, []

    def start(self, path):
        command = [self.gtrain, "ckpt", *self.random.choice(EDITS)]
        command.insert(3, path)
        command += ["--in-place", "--sync=no"]
        return command, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, errors="replace")

    def finish(self, command, process):
        try:
            output = process.communicate(timeout=TIMEOUT)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0]
        self.tried += 1
        self.refused += process.returncode == 1
        what = wrong(process.returncode, output)
        if what:
            self.failures.append("%s: %s\n%s" % (" ".join(command), what, output[-2000:]))

    def round(self, source, folder, runs):
        """Commands on one copy of `source`, PROCESSES at a time."""
        path = os.path.join(folder, "raced-" + os.path.basename(source))
        shutil.copy(source, path)
        going = []
        for _ in range(runs):
            if len(going) == PROCESSES:
                self.finish(*going.pop(self.random.randrange(PROCESSES)))
            going.append(self.start(path))
        for one in going:
            self.finish(*one)
        done = subprocess.run([self.gtrain, "ckpt", "verify", path], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace")
        if done.returncode:
            self.failures.append("%s: not sound in the end\n%s" % (path, (done.stdout + done.stderr)[-2000:]))
        left = [name for name in os.listdir(folder) if ".tmp-" in name]
        if left:
            self.failures.append("left behind: %s" % left)
        os.unlink(path)


def race(gtrain, runs=None, seconds=None, seed=0):
    """Race until `runs` commands have run, or `seconds` have passed; the Race, with its counts."""
    r = Race(gtrain, seed)
    end = time.monotonic() + seconds if seconds is not None else None
    with tempfile.TemporaryDirectory(prefix="gtrain-race-") as folder:
        sources = make_files(gtrain, folder)
        while (runs is not None and r.tried < runs) or (end is not None and time.monotonic() < end):
            left = ROUND if runs is None else min(ROUND, runs - r.tried)
            r.round(sources[r.random.randrange(len(sources))], folder, left)
    return r


def run(gtrain, seconds, seed):
    """For a harness: (commands that were tried, a text for each failure)."""
    r = race(gtrain, seconds=seconds, seed=seed)
    return r.tried, r.failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gtrain")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    args = parser.parse_args()
    print("# seed %d" % args.seed, flush=True)
    r = race(os.path.abspath(args.gtrain), args.runs, 20 if args.runs is None and args.seconds is None else args.seconds,
             args.seed)
    for failure in r.failures:
        print(failure)
    print("%d commands, %d of them refused, %d failures" % (r.tried, r.refused, len(r.failures)))
    return bool(r.failures)


if __name__ == "__main__":
    sys.exit(main())
