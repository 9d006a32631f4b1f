#!/usr/bin/python3
# ckpt_faults.py - the state that an error tells of is the one that files are in, and its hint is about its cause.
import glob
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
FAKE = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "fake", "fail_call.so")
OPTIONS = os.environ.get("ASAN_OPTIONS", "")


def run(words, folder, fault=""):
    """A command in the folder, which calls of the C library fail in as FAIL_CALL says (fake/fail_call.c)."""
    env = dict(os.environ)
    if fault:
        env.update(LD_PRELOAD=os.path.abspath(FAKE), FAIL_CALL=fault, ASAN_OPTIONS=OPTIONS + ":verify_asan_link_order=0")
    return subprocess.run([os.path.abspath(GTRAIN), *words.split()], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)


def contents(folder):
    return {os.path.basename(p): open(p, "rb").read() for p in sorted(glob.glob(os.path.join(folder, "*")))}


def safetensors(path, count, value):
    """`count` tensors of one float each."""
    entries = ['"t%d.weight":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}' % (i, 4 * i, 4 * i + 4)
               for i in range(count)]
    text = ("{" + ",".join(entries) + "}").encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + struct.pack("<f", value) * count)


def prepare(folder):
    """Files of every format, and three shards of older ones."""
    safetensors(os.path.join(folder, "a.safetensors"), 3, 1)
    safetensors(os.path.join(folder, "older.safetensors"), 3, 2)
    for line in ("a.safetensors -o a.pth", "a.safetensors -o a.legacy --to legacy", "a.safetensors -o a.npz",
                 "older.safetensors -o s.safetensors --shard-size 4"):
        r = run("ckpt convert " + line, folder)
        assert r.returncode == 0, r.stderr
    for file in ("a.pth", "a.safetensors"):
        shutil.copy(os.path.join(folder, file), os.path.join(folder, "torn-" + file))
    run("ckpt rename torn-a.pth --map t=u --in-place", folder)
    with open(os.path.join(folder, "torn-a.pth"), "ab") as f:
        f.truncate(f.tell() - 5)


# ---- the state of files ----

OLD, NEW = "old", "new"
UNSAFE = "the new content is in place, but it may not survive a power cut: cannot sync "
EDIT, SHARD = "ckpt rename %s --map t=u --in-place", "ckpt convert a.safetensors -o s.safetensors --shard-size 4"
EIO = ": Input/output error"
# (command, fault, what is said, the state: all files as before, as without the fault, or the names of those that are)
STATES = (
    (EDIT % "a.pth", "fsync:1:EIO", UNSAFE + "'a.pth'" + EIO, NEW),
    (EDIT % "a.pth", "pwrite:1:ENOSPC", "bytes at the end: No space left on device", OLD),
    (EDIT % "a.pth", "pwrite:1:SHORT", "bytes at the end: there was room for", OLD),
    (EDIT % "a.pth", "open:*:EACCES", "'a.pth': Permission denied", OLD),
    (EDIT % "a.safetensors", "fsync:1:EIO", UNSAFE + "'a.safetensors'" + EIO, NEW),
    (EDIT % "a.safetensors", "pwrite:1:SHORT", "bytes could be written", OLD),
    (EDIT % "a.safetensors", "pwrite:1:EDQUOT", "cannot write the header: Disk quota exceeded", OLD),
    (EDIT % "a.legacy", "fsync:1:EIO", "cannot write 'FOLDER/a.legacy'" + EIO, OLD),
    (EDIT % "a.legacy", "rename:1:EIO", "cannot rename", OLD),
    (EDIT % "a.legacy", "fsync:2:EIO", UNSAFE + "the folder of 'FOLDER/a.legacy'" + EIO, NEW),
    (EDIT % "a.npz", "fsync:2:EIO", UNSAFE + "the folder of 'FOLDER/a.npz'" + EIO, NEW),
    ("ckpt rename a.pth --map t=u -o b.pth", "fsync:1:EIO", "cannot write 'b.pth'" + EIO, OLD),
    ("ckpt rename a.pth --map t=u -o b.pth", "copy_file_range:1:ENOSPC", ": No space left on device", OLD),
    ("ckpt rename a.pth --map t=u -o b.pth", "fsync:2:EIO", UNSAFE + "the folder of 'b.pth'" + EIO, NEW),
    ("ckpt convert a.pth -o b.npz", "fsync:2:EIO", UNSAFE + "the folder of 'b.npz'" + EIO, NEW),
    ("ckpt convert a.pth -o b.safetensors", "fsync:2:EIO", UNSAFE + "the folder of 'b.safetensors'" + EIO, NEW),
    ("ckpt merge a.pth a.npz --average -o b.pth", "fsync:2:EIO", UNSAFE + "the folder of 'b.pth'" + EIO, NEW),
    ("ckpt select a.pth --keys t0* -o b.pth", "fsync:2:EIO", UNSAFE + "the folder of 'b.pth'" + EIO, NEW),
    (SHARD, "pwrite:2:ENOSPC", ": No space left on device", OLD),
    (SHARD, "fsync:4:EIO", ": cannot write 's.safetensors.index.json'" + EIO, OLD),
    (SHARD, "rename:1:EIO", "'s.safetensors': cannot rename", OLD),
    (SHARD, "rename:2:EIO", "the first of 4 files is new, the others as before: cannot rename", [1]),
    (SHARD, "rename:3:EIO", "files 1 to 2 of 4 are new, the others as before: cannot rename", [1, 2]),
    (SHARD, "fsync:5:EIO", "files 1 to 3 of 4 are new, the others as before: cannot sync the folder", [1, 2, 3]),
    (SHARD, "rename:4:EIO", "files 1 to 3 of 4 are new, the others as before: cannot rename", [1, 2, 3]),
    (SHARD, "fsync:6:EIO", UNSAFE + "the folder of 's.safetensors.index.json'" + EIO, NEW),
    ("ckpt verify --repair torn-a.pth", "fsync:1:EIO", UNSAFE + "'torn-a.pth'" + EIO, NEW),
    ("ckpt verify --repair torn-a.pth", "ftruncate:1:EIO", "cannot cut 'torn-a.pth'", OLD),
)


def compare(state, before, after, whole):
    """How the files differ from those of the state; index and shards have other names in what they are of."""
    if isinstance(state, list):
        expected = dict(before)
        for i in state:
            name = "s-%05d-of-00003.safetensors" % i
            expected[name] = whole[name]
    else:
        expected = before if state == OLD else whole
    differ = [n for n in sorted(set(after) | set(expected)) if after.get(n) != expected.get(n)]
    return "not as expected: " + ", ".join(differ) if differ else ""


def states(folder):
    first = os.path.join(folder, "first")
    os.mkdir(first)
    prepare(first)
    for number, (line, fault, said, state) in enumerate(STATES):
        whole, broken = (os.path.join(folder, "%d-%s" % (number, kind)) for kind in ("whole", "broken"))
        shutil.copytree(first, whole)
        shutil.copytree(first, broken)
        run(line, whole)
        r = run(line, broken, fault)
        problem = compare(state, contents(first), contents(broken), contents(whole))
        if state != OLD and contents(whole) == contents(first):
            problem = "the command changes nothing"
        if r.returncode != 1:
            problem += "\nstatus %d" % r.returncode
        if said.replace("FOLDER", os.path.realpath(broken)) not in r.stderr:
            problem += "\ndoes not say '%s'" % said
        yield "%s, %s" % (line, fault), problem and problem + "\n" + r.stderr


def both_fail(folder):
    """Half of an edit written, and it cannot be taken back: the message names the command that does."""
    prepare(folder)
    path, before = os.path.join(folder, "a.pth"), contents(folder)["a.pth"]
    r = run(EDIT % "a.pth", folder, "pwrite:1:SHORT,ftruncate:1:EIO")
    problem = "" if "could not be cut back to its %d bytes: cannot write" % len(before) in r.stderr else r.stderr
    if "hint: run `gtrain ckpt verify --repair` on it" not in r.stderr or r.returncode != 1:
        problem = r.stderr
    if not open(path, "rb").read().startswith(before) or os.path.getsize(path) == len(before):
        problem = "half of the edit is not there"
    run("ckpt verify --repair a.pth", folder)
    if not problem and contents(folder)["a.pth"] != before:
        problem = "--repair does not put back what was"
    yield "an edit that is cut short and stays", problem


# ---- hints ----

RANKS = "train --model mlp:4,3,2 --data random --steps 1 --nproc 2 --quiet --out run"
HINTS = (
    ("ckpt ls none.pth", "", "check the path"),
    ("ckpt ls a.pth", "open:*:EMFILE", "`ulimit -n`"),
    ("ckpt ls a.pth", "open:*:ENFILE", "close other programs"),
    ("ckpt ls a.pth", "open:*:EINTR", ""),
    (EDIT % "a.pth", "pwrite:1:EFBIG", "`ulimit -f`"),
    (EDIT % "a.pth", "pwrite:1:ENOSPC", "`df`"),
    (EDIT % "a.pth", "pwrite:1:SHORT,pwrite:2:ENOSPC", "`df`"),
    (EDIT % "a.pth", "pwrite:1:EDQUOT", "`quota`"),
    (EDIT % "a.pth", "fsync:1:EIO", "the disk may be failing"),
    (RANKS, "memfd_create:*:EMFILE", "`ulimit -n`"),
    (RANKS, "memfd_create:*:ENFILE", "close other programs"),
    (RANKS, "ftruncate:*:EFBIG", "`ulimit -f`"),
    (RANKS + " --max-restarts 2", "fsync:*:ENOSPC", "`df`"),
)


def hints(folder):
    prepare(folder)
    for line, fault, hint in HINTS:
        r = run(line, folder, fault)
        told = [t for t in r.stderr.splitlines() if t.startswith("hint: ")]
        good = r.returncode == 1 and (hint in told[0] if told else not hint) and len(told) == bool(hint)
        yield "the hint of %s, %s" % (line, fault or "no such file"), "" if good else "status %d\n%s" % (
            r.returncode, r.stderr)


def limits(folder):
    """The system's own limits, without a preloaded library."""
    prepare(folder)
    for limit, line, said, hint in (
            ("-f 1", "ckpt convert big.safetensors -o b.pth", "File too large", "`ulimit -f`"),
            ("-n 4", "ckpt diff a.pth a.npz", "Too many open files", "`ulimit -n`")):
        safetensors(os.path.join(folder, "big.safetensors"), 300, 1)
        before = contents(folder)
        r = subprocess.run(["bash", "-c", "ulimit %s; exec '%s' %s" % (limit, os.path.abspath(GTRAIN), line)],
                           cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
        good = r.returncode == 1 and said in r.stderr and hint in r.stderr and contents(folder) == before
        yield "ulimit %s, %s" % (limit, line), "" if good else "status %d\n%s" % (r.returncode, r.stderr)


if __name__ == "__main__":
    if "thread" in os.environ.get("SANITIZE", ""):
        print("1..0 # SKIP its run-time wants to be loaded first")
        sys.exit(0)
    sys.exit(tap.run([states, both_fail, hints, limits], GTRAIN, sys.argv[1:]))
