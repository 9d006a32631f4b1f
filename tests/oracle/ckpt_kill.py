#!/usr/bin/python3
# ckpt_kill.py - commands that write killed before each of their system calls: files are old or new, and readable.
import os
import re
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

try:
    import numpy
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

warnings.filterwarnings("ignore")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")
KILL_AT = os.path.join(TESTS, "kill_at")
# The search for leaks does not work in a program that is traced already.
TRACED = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
SAVE = [os.path.join(TESTS, "ckpt_tree"), "copy"]
SHARDS = ["out-%05d-of-00003.safetensors" % (i + 1) for i in range(3)]
INDEX = "out.safetensors.index.json"
torch.manual_seed(6)


def ckpt(command, *options):
    return [GTRAIN, "ckpt", command, "-q", *options]


def run(words):
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return done.stderr if done.returncode else ""


# ---- inputs ----

def tensors(seed):
    torch.manual_seed(seed)
    model = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40)))
    return model.state_dict()


def make_zip(path):
    torch.save({"model": tensors(6), "epoch": 3}, path)


def make_legacy(path):
    torch.save({"model": tensors(6), "epoch": 3}, path, _use_new_zipfile_serialization=False)


def make_safetensors(path):
    make_zip(path + ".pth")
    problem = run(ckpt("convert", path + ".pth", "--to", "safetensors", "-o", path))
    os.remove(path + ".pth")
    assert not problem, problem


def make_torn(path):
    make_zip(path)
    problem = run(ckpt("strip-module", path, "--in-place"))
    assert not problem, problem
    os.truncate(path, os.path.getsize(path) - 5)


# ---- cases ----

STRIP = ["IN", "--in-place"]
CONVERT = ckpt("convert", "IN", "-o", "OUT", "--to")
CUT = ckpt("convert", "IN", "--to", "safetensors", "-o", "OUT", "--shard-size", "600")
OLD = b"what was there before"

# What is run, how IN is made, what it writes: IN, or names beside it, and what lies there before (b"": nothing).
CASES = [
    ("strip-module in place, zip", ckpt("strip-module", *STRIP), make_zip, "IN", b""),
    ("remap in place, zip", ckpt("remap", *STRIP, "--map", "cpu=cuda:0"), make_zip, "IN", b""),
    ("strip-module in place, legacy", ckpt("strip-module", *STRIP), make_legacy, "IN", b""),
    ("strip-module in place, safetensors", ckpt("strip-module", *STRIP), make_safetensors, "IN", b""),
    ("add-module in place, safetensors without room", ckpt("add-module", *STRIP), make_safetensors, "IN", b""),
    ("strip-module to a new file, zip", ckpt("strip-module", "IN", "-o", "OUT"), make_zip, ["out"], b""),
    ("strip-module to a new file, legacy", ckpt("strip-module", "IN", "-o", "OUT"), make_legacy, ["out"], b""),
    ("strip-module over another file", ckpt("strip-module", "IN", "-o", "OUT"), make_zip, ["out"], OLD),
    ("a save over another file", [*SAVE, "IN", "OUT"], make_zip, ["out"], OLD),
    ("a save", [*SAVE, "IN", "OUT"], make_zip, ["out"], b""),
    ("convert to safetensors over another file", [*CONVERT, "safetensors"], make_zip, ["out"], OLD),
    ("convert to npz over another file", [*CONVERT, "npz"], make_zip, ["out"], OLD),
    ("convert to shards", CUT, make_zip, [*SHARDS, INDEX], b""),
    ("convert to shards over others", CUT, make_zip, [*SHARDS, INDEX], OLD),
    ("merge", ckpt("merge", "IN", "IN", "--average", "-o", "OUT", "--to", "pth"), make_zip, ["out"], OLD),
    ("verify --repair", ckpt("verify", "IN", "--repair"), make_torn, "IN", b""),
]
# Those that SIGTERM ends, too: one of each way to write. A save alone does not listen.
BY_SIGTERM = ("strip-module in place, zip", "strip-module in place, safetensors", "strip-module over another file",
              "convert to shards over others", "merge", "verify --repair")
assert not set(BY_SIGTERM) - {name for name, *_ in CASES}


class Case:
    def __init__(self, folder, words, make, writes, there):
        self.folder, self.there = folder, there
        self.source = os.path.join(folder, "in")
        out = os.path.join(folder, "out")
        self.words = [{"IN": self.source, "OUT": out}.get(w, w) for w in words]
        self.in_place = writes == "IN"
        self.names = ["in"] if self.in_place else writes
        make(self.source)
        self.input = read(self.source)
        self.old = [self.input] if self.in_place else [there or None] * len(self.names)

    def reset(self):
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))
        write(self.source, self.input)
        if self.there:
            for name in self.names:
                write(os.path.join(self.folder, name), self.there)

    def state(self):
        return [read(os.path.join(self.folder, name)) for name in self.names]

    def problem_now(self, new, may_leave):
        """What is wrong with the folder after a kill. Temporary files may stay, under names that say so."""
        strays = [n for n in os.listdir(self.folder) if n != "in" and n not in self.names]
        left = [n for n in strays if re.sub(r"\.tmp-[1-9]\d*-\d+$", "", n) in self.names]
        if left != strays or len(left) > (len(self.names) if may_leave else 0):
            return "strays: %s" % strays
        if not self.in_place and read(self.source) != self.input:
            return "the input has changed"
        now = self.state()
        if any(n not in (o, w) for n, o, w in zip(now, self.old, new)):
            return "neither old nor new"
        # Of several files the last is the index.
        return "" if now[-1] != new[-1] or now == new else "a new index, and shards that are not"


def read(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def load_problem(path):
    start = read(path)[:4]
    names = subprocess.run([GTRAIN, "ckpt", "ls", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    if names.returncode:
        return names.stderr
    if "npz" in names.stdout.split('"format"')[1][:12]:
        numpy.load(path, allow_pickle=False)
    elif start == b"PK\3\4" or start[:1] == b"\x80":
        torch.load(path, map_location="cpu")
    return run(ckpt("verify", path))


def kill_everywhere(case, new, how):
    """Returns what is wrong, how many calls there are, and which states were seen."""
    seen, n = set(), 0
    while True:
        n += 1
        case.reset()
        killed = subprocess.run([KILL_AT, *how, case.source, str(n), *case.words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=TRACED)
        problem = case.problem_now(new, not how)
        if problem or killed.returncode not in (0, 3):
            return "%sbefore call %d (%s): %s%s" % (" ".join(how), n, killed.stdout.strip(), problem, killed.stderr), n, seen
        now = case.state()
        seen.add("old" if now == case.old else "new" if now == new else "between")
        if killed.returncode == 3:
            return "", n, seen


def check(folder, name, *what):
    case = Case(folder, *what)
    case.reset()
    problem = run(case.words)
    if problem:
        return problem, 0
    new = case.state()
    problem = load_problem(os.path.join(folder, case.names[-1]))
    if problem or any(n == o for n, o in zip(new, case.old)):
        return problem or "nothing was done", 0
    problem, n, seen = kill_everywhere(case, new, [])
    if not problem and (n < 10 or seen - {"between"} != {"old", "new"} or ("between" in seen) != (len(new) > 1)):
        problem = "%d calls, seen %s: the test has missed what it is for" % (n, seen)
    # SIGTERM ends it, too, and leaves nothing.
    if not problem and name in BY_SIGTERM:
        problem = kill_everywhere(case, new, ["-TERM"])[0]
    return problem, n


def main():
    cases = tap.one_in(2, CASES)
    print("1..%d" % len(cases))
    for i, (name, *case) in enumerate(cases, 1):
        with tempfile.TemporaryDirectory() as folder:
            problem, calls = check(folder, name, *case)
        print("%s %d - %s, killed before each of %d calls" % ("not ok" if problem else "ok", i, name, calls))
        if problem:
            print("# " + problem)


main()
