#!/usr/bin/python3
# ckpt_attacks.py - the collection of attacks (tests/fuzz/attacks.py): each refused with a reason, at bounded cost, nothing run.
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "ckpt_tree")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
SANITIZE = os.environ.get("SANITIZE", "")
SANITIZED = bool(SANITIZE)
MEMORY = 300 << 20  # above what an ordinary file takes
SECONDS = 20 if SANITIZED else 2  # of the processor: what takes the square of the largest counts takes longer
COMMANDS = [["ls"], ["ls", "--stats"], ["ls", "--json"], ["verify"], ["strip-module", "--dry-run"], ["add-module", "--dry-run"],
            ["remap", "--map", "cpu=cuda:0", "--dry-run"]]
OUTPUT = 64 << 20  # bytes that may be written of a small file
PLACE = r"\bbytes? \d|'[^']+'|\bpickle\b|\bheader\b|\bfirst bytes\b|\bend\b|\bnpy: "  # an offset, or the entry by its name

for module in ("common", "fuzz"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", module))
import outcome  # noqa: E402
import program  # noqa: E402
import tap  # noqa: E402

# dcp has an archive for each tensor: tens of thousands of them take more than SECONDS.
WRITERS = [*(["convert", "--to", word] for word in program.formats() if word != "dcp"), ["select", "--keys", "*", "--to", "pth"],
           ["merge", "--average", "--to", "pth"]]


def run(path, memory, command=(PROGRAM, "print"), written=0):
    limits = {"cpu": SECONDS, "core": 0}
    if memory:
        limits["as"] = memory
    if "thread" not in SANITIZE:  # whose run-time keeps its memory in a file
        limits["fsize"] = written
    return subprocess.run(outcome.limited([*command, path], **limits), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=30 * SECONDS)


def address_space(path, command):
    """The least that an ordinary file takes, with its libraries, to 8 MiB."""
    if SANITIZED:
        return 0
    low, high = 0, 4 << 30
    while high - low > 8 << 20:
        middle = (low + high) // 2
        if run(path, middle, command).returncode:
            low = middle
        else:
            high = middle
    return high


def judge_verify(path, name):
    """`gtrain ckpt verify` has to name the code in a file that can be read, and to fail."""
    done = run(path, 0, (GTRAIN, "ckpt", "verify"))
    if done.returncode != 1:
        return "verify ends with %d" % done.returncode
    return None if "'%s'" % name in done.stdout.decode() else "verify does not name '%s'" % name


def judge_commands(path, memory):
    """Each command ends, in bounded time and memory, with a result or a reason."""
    for command in COMMANDS:
        done = run(path, memory, (GTRAIN, "ckpt", *command))
        if done.returncode not in (0, 1) or b"out of memory" in done.stderr:
            return "%s ends with %d: %s" % (command[0], done.returncode, done.stderr.decode(errors="replace")[:300])
    return None


def globals_of(path):
    """The globals that verify lists, without those that PyTorch itself loads; None of what it cannot read."""
    done = run(path, 0, (GTRAIN, "ckpt", "verify", "--json"))
    found = json.loads(done.stdout or "{}")
    return {g["name"] for g in found["globals"] if not g["allowed"]} if found.get("format") else None


def judge_output(out, known, listed):
    """What is written can be read as far as the input can, and names nothing that verify did not list there."""
    done = run(out, 0, (GTRAIN, "ckpt", "ls"))
    if done.returncode:
        return "the output cannot be read: " + done.stderr.decode(errors="replace") if listed else None
    if not os.path.isdir(out) and not open(out, "rb").read(8).startswith((b"PK", b"\x80")):
        return None  # safetensors
    new = globals_of(out)
    if new is None:
        return "verify cannot read the output"
    return "new globals: %s" % ", ".join(sorted(new - known)) if new - known else None


def judge_writers(path, memory, outputs):
    """Each command that writes ends, with a sound file or a reason and none; diff, too."""
    known = globals_of(path) or set()
    listed = run(path, 0, (GTRAIN, "ckpt", "ls")).returncode == 0
    out = os.path.join(outputs, "out")
    for command in tap.one_in(3, [*WRITERS, ["diff"]], os.path.getsize(path)):
        words = command[:1] + [path] * (command[0] in ("merge", "diff")) + command[1:]
        if command[0] != "diff":
            words += ["--sync=no", "-o", out]
        files = 2 if command[0] in ("merge", "diff") else 1
        done = run(path, memory and memory + (files - 1) * MEMORY, (GTRAIN, "ckpt", *words), OUTPUT)
        wrong = None
        if done.returncode not in (0, 1) or b"out of memory" in done.stderr:
            wrong = "ends with %d: %s" % (done.returncode, done.stderr.decode(errors="replace")[:300])
        elif os.listdir(outputs) != (["out"] if done.returncode == 0 and command[0] != "diff" else []):
            wrong = "leaves %s after %d" % (os.listdir(outputs), done.returncode)
        elif os.path.exists(out):
            wrong = judge_output(out, known, listed)
        for name in os.listdir(outputs):
            made = os.path.join(outputs, name)
            shutil.rmtree(made) if os.path.isdir(made) else os.unlink(made)
        if wrong:
            return "%s %s" % (" ".join(command), wrong)
    return None


def judge(done, path, said, opens):
    """What is wrong with the answer, or None."""
    error = done.stderr.decode(errors="replace")
    if done.returncode < 0:
        return "killed by signal %d" % -done.returncode
    if opens:
        if done.returncode:
            return "not read: " + error
        return None if said in done.stdout.decode(errors="replace") else "no '%s' in the tree" % said
    if not done.returncode:
        return "accepted"
    reason = error.replace("'%s'" % path, "FILE")
    if said not in reason:
        return "'%s' is not said: %s" % (said, reason)
    return None if re.search(PLACE, reason) else "names no place: " + reason


def main():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as outputs:
        canary = os.environ["CANARY"] = os.path.join(folder, "canary")
        import attacks
        import attack_files
        path = os.path.join(folder, "attack")
        with open(path, "wb") as f:
            f.write(attack_files.torch_zip())
        base = address_space(path, (PROGRAM, "print"))
        gtrain_base = address_space(path, (GTRAIN, "ckpt", "ls"))
        cases = list(attacks.all_attacks())
        print("1..%d" % len(cases))
        for i, (group, name, data, said) in enumerate(cases):
            with open(path, "wb") as f:
                f.write(data)
            try:
                if isinstance(said, attacks.Bounded):
                    wrong = judge_commands(path, gtrain_base and gtrain_base + MEMORY)
                else:
                    wrong = judge(run(path, base and base + MEMORY), path, said, isinstance(said, attacks.Opens))
                if not wrong and getattr(said, "names", None):
                    wrong = judge_verify(path, said.names)
                if not wrong and isinstance(said, (attacks.Bounded, attacks.Opens)):
                    wrong = judge_writers(path, gtrain_base and gtrain_base + MEMORY, outputs)
            except subprocess.TimeoutExpired:
                wrong = "does not end"
            if os.path.exists(canary):
                wrong = "code was run"
                os.unlink(canary)
            if os.listdir(folder) != ["attack"] or open(path, "rb").read() != data:
                wrong = "files were written"
            print("%sok %d - %s: %s" % ("not " if wrong else "", i + 1, group, name), flush=True)
            if wrong:
                print("# " + wrong.strip().replace("\n", "\n# "))


if __name__ == "__main__":
    main()
