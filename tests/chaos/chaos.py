#!/usr/bin/env python3
"""
chaos.py - ranks are killed, stopped and slowed at random while they train, and the model comes out the same to the bit.

chaos.py [ROUNDS [SEED]]: each round trains anew and disturbs it once or twice; `make check-chaos` does 100. After each, the
model must be that of a run which nobody disturbed, and no process and no shared memory may be left.
"""
import filecmp
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
STEPS, SAVED, TOO_LATE = 600, 50, "too late"
TIMEOUT = 1  # seconds until a stopped rank is given up
LIMIT = 120  # seconds for a run
EARLY = "ask early"  # before its ranks are all in the training loop, at first or again: then a signal ends it at once
RESUMED = {"launcher", "ask", EARLY}  # it is killed, or asked to end: the run goes on when it is started again
TEXT = "the quick brown fox jumps over the lazy dog, and goes on. " * 40
os.environ["OMP_NUM_THREADS"] = "1"


def command(folder, out, nproc):
    return [GTRAIN, "train", "--model", "gpt:layers=2,heads=2,width=32,block=16,dropout=0.1", "--data", f"text:{folder}/text.txt",
            "--val-split", "0.1", "--batch", str(12 // nproc), "--nproc", str(nproc), "--steps", str(STEPS), "--save-every", str(SAVED),
            "--eval-every", "200", "--timeout", f"{TIMEOUT}s", "--max-restarts", "20", "--seed", "3", "-q", "--out", out]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(child) for child in f.read().split()]
    except FileNotFoundError:
        return []


def send(pid, what):
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        pass


def disturb(rng, run):
    """Does something to the run, and says what."""
    ranks = children(run.pid)
    if not ranks:
        return "nothing"
    number = rng.randrange(len(ranks))
    kind = rng.choice(["kill", "stop", "slow", "kill two", "launcher", "ask"])
    if kind == "kill":
        send(ranks[number], signal.SIGKILL)
    elif kind == "kill two":
        for pid in rng.sample(ranks, min(2, len(ranks))):
            send(pid, signal.SIGKILL)
    elif kind == "stop":
        send(ranks[number], signal.SIGSTOP)
    elif kind == "slow":
        for _ in range(rng.randrange(5, 20)):
            send(ranks[number], signal.SIGSTOP)
            time.sleep(rng.uniform(0, 0.05))
            send(ranks[number], signal.SIGCONT)
            time.sleep(rng.uniform(0, 0.02))
    elif kind == "ask":
        send(run.pid, signal.SIGTERM)
    else:
        send(run.pid, signal.SIGKILL)
    return kind if kind in RESUMED else f"{kind} {number}"


def descendants(mark):
    """Processes that were started for a run, by a word of their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f, open(f"/proc/{pid}/stat") as stat:
                if mark.encode() in f.read() and stat.read().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def leftovers(mark, shm):
    deadline = time.monotonic() + 3  # a launcher that was killed can't wait for its ranks
    while descendants(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    problems = [f"processes {descendants(mark)}"] if descendants(mark) else []
    # Training has no names there. Verification and Open MPI, which others may run meanwhile, have.
    more = {name for name in set(os.listdir("/dev/shm")) - shm if not name.startswith(("gtrain-verify-", "vader_segment."))}
    return problems + ([f"/dev/shm has {sorted(more)}"] if more else [])


def wait_for_step(run, out, step):
    """Until the run has saved this step, or is over."""
    while run.poll() is None and step and not any(name >= f"step-{step:08}" for name in listed(f"{out}/checkpoints")):
        time.sleep(0.002)


def listed(folder):
    return [name for name in os.listdir(folder) if name.endswith(".pth")] if os.path.exists(folder) else []


def make_undisturbed(folder):
    """The text, and by the number of ranks the run that nobody disturbs."""
    with open(f"{folder}/text.txt", "w") as f:
        f.write(TEXT)
    undisturbed = {n: f"{folder}/undisturbed-{n}" for n in (2, 3, 4)}
    for n, out in undisturbed.items():
        subprocess.run(command(folder, out, n), check=True)
    return undisturbed


def one_round(rng, folder, undisturbed):
    nproc = rng.choice([2, 3, 4])
    out = tempfile.mkdtemp(prefix="round-", dir=folder)
    shm = set(os.listdir("/dev/shm"))
    args, done = command(folder, out, nproc), []
    run = subprocess.Popen(args, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for step in sorted(rng.choices(range(0, STEPS, SAVED), k=rng.choice([1, 1, 2]))):
        wait_for_step(run, out, step)
        time.sleep(rng.uniform(0, 0.05))
        begun = bool(listed(f"{out}/checkpoints"))
        starts_again = any(act.startswith(("kill", "stop")) for act in done)
        done.append(disturb(rng, run) if run.poll() is None else TOO_LATE)
        if done[-1] == "ask" and (starts_again or not begun):
            done[-1] = EARLY
    try:
        said = run.communicate(timeout=LIMIT)[1]
    except subprocess.TimeoutExpired:
        for pid in {run.pid, *descendants(out)}:
            send(pid, signal.SIGKILL)
        run.wait()
        return nproc, done, [f"it hangs after: {', '.join(done)}"]
    problems = leftovers(out, shm)
    asked = run.returncode in (0, -signal.SIGTERM)  # 0: the signal came too late
    if "ask" in done and "launcher" not in done and not asked:
        problems.append(f"status {run.returncode} when asked to end: {said}")
    if RESUMED & set(done) and (asked or {"launcher", EARLY} & set(done)):
        run = subprocess.run([*args, "--resume", "auto"], capture_output=True, text=True, timeout=120)
        said += run.stderr
    if run.returncode:
        problems.append(f"status {run.returncode}: {said}")
    elif not filecmp.cmp(f"{out}/model.pth", f"{undisturbed[nproc]}/model.pth", shallow=False):
        problems.append("the model is another")
    return nproc, done, problems


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    rng, failed, number = random.Random(seed), 0, 0
    print(f"# seed {seed}\n1..{rounds}")
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = make_undisturbed(folder)
        while number < rounds:
            nproc, done, problems = one_round(rng, folder, undisturbed)
            if not problems and done[0] == TOO_LATE:
                continue  # the run was over: this round proves nothing
            number += 1
            failed += bool(problems)
            print(f"{'not ok' if problems else 'ok'} {number} - {nproc} ranks: {', '.join(done)}")
            for problem in problems:
                print("# " + problem.strip().replace("\n", "\n# "))
            sys.stdout.flush()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
