#!/usr/bin/python3
# ckpt_kill.py - edits and saves killed before each of their system calls: the file is the old one or the new one.
import os
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

warnings.filterwarnings("ignore")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")
KILL_AT = os.path.join(TESTS, "kill_at")
SAVE = [os.path.join(TESTS, "ckpt_tree"), "copy"]
torch.manual_seed(6)


def ckpt(command, *options):
    return [GTRAIN, "ckpt", command, "-q", *options]


# What is run, whether IN is legacy, what lies at OUT before (None: there is no OUT).
CASES = [
    ("strip-module in place, zip", ckpt("strip-module", "IN", "--in-place"), False, None),
    ("remap in place, zip", ckpt("remap", "IN", "--in-place", "--map", "cpu=cuda:0"), False, None),
    ("strip-module in place, legacy", ckpt("strip-module", "IN", "--in-place"), True, None),
    ("strip-module to a new file, zip", ckpt("strip-module", "IN", "-o", "OUT"), False, b""),
    ("strip-module to a new file, legacy", ckpt("strip-module", "IN", "-o", "OUT"), True, b""),
    ("strip-module over another file", ckpt("strip-module", "IN", "-o", "OUT"), False, b"what was there before"),
    ("a save", [*SAVE, "IN", "OUT"], False, b""),
    ("a save over another file", [*SAVE, "IN", "OUT"], False, b"what was there before"),
]


class Case:
    def __init__(self, folder, words, legacy, there):
        self.folder, self.there = folder, there
        self.source, self.out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
        self.words = [{"IN": self.source, "OUT": self.out}.get(w, w) for w in words]
        self.result = self.source if there is None else self.out
        model = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40)))
        torch.save({"model": model.state_dict(), "epoch": 3}, self.source, _use_new_zipfile_serialization=not legacy)
        self.input = read(self.source)
        self.old = self.input if there is None else there or None

    def reset(self):
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))
        write(self.source, self.input)
        if self.there:
            write(self.out, self.there)

    def problem_now(self, new):
        """What is wrong with the folder after a kill. A temporary file may stay, under a name that says so."""
        strays = [n for n in os.listdir(self.folder) if n not in ("in.pth", "out.pth")]
        if any(not re.fullmatch(r"(in|out)\.pth\.tmp-\d+-\d+", n) for n in strays) or len(strays) > 1:
            return "strays: %s" % strays
        if self.there is not None and read(self.source) != self.input:
            return "the input has changed"
        now = read(self.result)
        return "" if now in (self.old, new) else "neither old nor new"


def read(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def load_problem(path):
    torch.load(path, map_location="cpu")
    listed = subprocess.run([GTRAIN, "ckpt", "ls", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return listed.stderr


def check(folder, words, legacy, there):
    case = Case(folder, words, legacy, there)
    case.reset()
    done = subprocess.run(case.words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return done.stderr, 0
    new = read(case.result)
    problem = load_problem(case.result)
    if problem or new == case.old:
        return problem or "nothing was done", 0
    seen, n = set(), 0
    while True:
        n += 1
        case.reset()
        killed = subprocess.run([KILL_AT, case.source, str(n), *case.words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        problem = case.problem_now(new)
        if problem or killed.returncode not in (0, 3):
            return "before call %d (%s): %s%s" % (n, killed.stdout.strip(), problem, killed.stderr), n
        seen.add("old" if read(case.result) == case.old else "new")
        if killed.returncode == 3:
            break
    if n < 10 or seen != {"old", "new"} or read(case.result) != new:
        return "%d calls, seen %s: the test has missed what it is for" % (n, seen), n
    return "", n


def main():
    print("1..%d" % len(CASES))
    for i, (name, *case) in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as folder:
            problem, calls = check(folder, *case)
        print("%s %d - %s, killed before each of %d calls" % ("not ok" if problem else "ok", i, name, calls))
        if problem:
            print("# " + problem)


main()
