#!/usr/bin/python3
"""
save_kill.py - runs killed at random while they save: every checkpoint is whole, and the run ends with the same bits (TAP).

KILLS is the number of kills, by default a few; `make check-save-kills` takes 1000. SEED repeats them.
"""
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
KILLS, SEED = int(os.environ.get("KILLS", "12")), int(os.environ.get("SEED", time.time_ns() % 100000))
LATEST_S = 0.15  # a kill comes at most this long after a checkpoint has appeared
WIDTH = 24
os.environ["OMP_NUM_THREADS"] = "1"

FORMS = {
    "a file": ["--save-async"],
    "a set of one rank": ["--save-async", "--save-sharded"],
    "a file of two ranks": ["--nproc", "2", "--parallel", "zero1", "--save-async"],
    "a set of two ranks": ["--nproc", "2", "--parallel", "zero3", "--save-async", "--save-sharded"],
    "a set of two ranks, at once": ["--nproc", "2", "--save-sharded"],
}
LIFE = 6  # steps that a run makes for each kill: each step saves, and a run that is killed has saved one more


def command(folder, out, form, steps):
    return [GTRAIN, "train", "--model", f"mlp:6,{WIDTH},{WIDTH},3", "--data", f"csv:{folder}/table.csv", "--batch", "4", "--steps", str(steps),
            "--save-every", "1", "--keep", "2", "--seed", "3", "-q", "--out", out, *FORMS[form]]


def checkpoints(out):
    folder = f"{out}/checkpoints"
    return sorted(os.listdir(folder)) if os.path.exists(folder) else []


def complete(out):
    return [name for name in checkpoints(out) if re.fullmatch(r"step-\d{8}\.(pth|dcp)", name)]


def members(pid):
    """The processes of a session."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            if int(fields[3]) == pid and fields[0] != "Z":
                found.append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def kill_one_life(rng, words, out):
    """Start or go on with the run, and kill it after a random time. Returns whether it was still there."""
    before = complete(out)
    run = subprocess.Popen([*words, "--resume", "auto"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                           start_new_session=True)
    while run.poll() is None and complete(out) == before:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, LATEST_S))
    killed = run.poll() is None
    if killed:
        os.killpg(run.pid, signal.SIGKILL)
    error = run.communicate()[1]
    while members(run.pid):
        time.sleep(0.005)
    assert killed or run.returncode == 0, error
    return killed


def check_state(out, done):
    """The checkpoints of a run that was killed."""
    there = complete(out)
    assert len(there) >= min(done, 1), f"no checkpoint is left: {checkpoints(out)}"
    strays = [name for name in checkpoints(out) if name not in there and not re.search(r"\.tmp-\d+-\d+$", name)]
    assert not strays, f"strays: {strays}"
    for name in there:
        checked = subprocess.run([GTRAIN, "ckpt", "verify", "-q", f"{out}/checkpoints/{name}"], capture_output=True, text=True)
        assert checked.returncode == 0, f"{name}: {checked.stdout}{checked.stderr}"


@tap.cases(list(FORMS))
def survives_kills(folder, form):
    rng = random.Random(f"{SEED} {form}")
    with open(f"{folder}/table.csv", "w") as f:
        for _ in range(40):
            f.write(",".join(f"{rng.gauss(0, 1):.6f}" for _ in range(6)) + f",{rng.randrange(3)}\n")
    kills = max(1, KILLS // len(FORMS))
    steps = LIFE * kills
    undisturbed, out, done = f"{folder}/undisturbed", f"{folder}/run", 0
    subprocess.run([*command(folder, undisturbed, form, steps), "--save-every", "0"], check=True, capture_output=True)
    while done < kills and kill_one_life(rng, command(folder, out, form, steps), out):
        done += 1
        check_state(out, done)
    subprocess.run([*command(folder, out, form, steps), "--resume", "auto"], check=True, capture_output=True)
    assert not [name for name in checkpoints(out) if ".tmp-" in name], f"a killed run's files stay: {checkpoints(out)}"
    with open(f"{out}/model.pth", "rb") as a, open(f"{undisturbed}/model.pth", "rb") as b:
        assert a.read() == b.read(), f"after {done} kills, the model has other bits (SEED={SEED})"
    print(f"# {form}: {done} kills", flush=True)


if __name__ == "__main__":
    print(f"# SEED={SEED}")
    sys.exit(tap.run(tap.parts, GTRAIN, sys.argv[1:]))
