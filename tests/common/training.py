"""training.py - what tests that train on ranks share: small data, the command, the curves of losses it leaves."""
import json
import os
import signal
import subprocess
import sys
import time

from program import use_isa  # noqa: F401: scripts take it from here

try:
    import numpy as np
    import torch  # noqa: F401: scripts take it from here, which skips those that have none
except ImportError:
    print("1..0 # SKIP python has no torch or no numpy")
    sys.exit(0)

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")
os.environ["OMP_NUM_THREADS"] = "1"
TEXT = ("the quick brown fox jumps over the lazy dog, and goes on. " * 30)[:96 * 16 + 1]  # 96 samples
BATCH = 12  # of all ranks together
ROWS = 5 * BATCH
COMMON = ["--steps", "50", "--warmup", "0", "--lr-schedule", "constant", "--log-every", "1", "--drop-last", "--seed", "3", "-q"]


def make_data(folder):
    rng = np.random.default_rng(1)
    with open(f"{folder}/table.csv", "w") as f:
        for _ in range(ROWS):
            f.write(",".join(repr(float(v)) for v in rng.normal(size=5).astype(np.float32)) + f",{rng.integers(3)}\n")
    with open(f"{folder}/text.txt", "w") as f:
        f.write(TEXT)


def gtrain(*args, status=0):
    done = subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True, timeout=120)
    if done.returncode != status:
        raise RuntimeError(f"status {done.returncode}: {done.stderr}")
    return done.stderr


def train(folder, name, model, data, nproc, options, batch=BATCH, sharing=1, common=COMMON):
    """Train on `nproc` ranks, `sharing` of which at a time have the same samples, in batches of `batch` samples of all."""
    out = f"{folder}/{name}-{nproc}"
    gtrain("train", "--model", model, "--data", data.format(folder), "--nproc", nproc, "--batch", batch * sharing // nproc,
           "--out", out, *common, *options)
    return out


def curve(out, split="train"):
    with open(f"{out}/metrics.jsonl") as f:
        return [row for row in map(json.loads, f) if row["split"] == split]


def apart(a, b, key="loss"):
    return max(abs(x[key] - y[key]) / abs(y[key]) for x, y in zip(a, b))


def sampled(world, batch, epochs):
    """The indices that each rank draws, step by step."""
    lines = "".join(f"{ROWS} {world} {rank} {batch} 1 1 1 3 {epoch}\n" for epoch in range(epochs) for rank in range(world))
    text = subprocess.run([os.path.join(TESTS, "sampler_dump")], input=lines, check=True, capture_output=True, text=True).stdout
    blocks = [[[int(i) for i in line.split()] for line in block.splitlines()[1:]] for block in text.split("end\n")[:-1]]
    return [step for epoch in range(epochs) for step in zip(*blocks[epoch * world:(epoch + 1) * world])]


def distance(a, b):
    """Largest difference of two trees: of tensors by the largest element of each; 1 where all else differs."""
    if isinstance(a, dict):
        return max([1 if list(a) != list(b) else 0, *(distance(a[k], b[k]) for k in a)])
    if isinstance(a, (list, tuple)):
        return max([1 if len(a) != len(b) else 0, *(distance(x, y) for x, y in zip(a, b))])
    if isinstance(a, torch.Tensor):
        return 1 if a.shape != b.shape else float((a.double() - b.double()).abs().max() / (b.double().abs().max() + 1e-30))
    return 0 if a == b or a is b else 1


def kill(run, out):
    """Kill a run that was started in a session of its own; wait until its ranks, which the launcher cannot end any more, are gone, too."""
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(is_of(pid, out) for pid in filter(str.isdigit, os.listdir("/proc"))):
        time.sleep(0.02)


def is_of(pid, out):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f, open(f"/proc/{pid}/stat") as stat:
            return out.encode() in f.read() and stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
