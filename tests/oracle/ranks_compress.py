#!/usr/bin/env python3
"""ranks_compress.py - gradients sent as half precision: beside PyTorch's DDP with its hook, and what is too large (TAP)."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from launchers import free_port  # noqa: E402
from training import BATCH, GTRAIN, ROWS, apart, curve, gtrain, make_data, sampled, torch, train  # noqa: E402
import numpy as np  # noqa: E402

SGD = ["--optimizer", "sgd", "--lr", "0.05", "--weight-decay", "0"]
DDP = """
import os, sys, torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
run = torch.load(sys.argv[1])
net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
net.load_state_dict(run["state"])
net = torch.nn.parallel.DistributedDataParallel(net)
net.register_comm_hook(None, default_hooks.fp16_compress_hook)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
losses = []
for batches in run["batches"]:
    loss = torch.nn.functional.cross_entropy(net(run["x"][batches[rank]]), run["y"][batches[rank]])
    opt.zero_grad()
    loss.backward()
    opt.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    losses.append(float(loss) / 2)
if rank == 0:
    torch.save(losses, sys.argv[2])
dist.barrier()
os._exit(0)  # PyTorch 1.13 sometimes aborts in its own clean-up
"""


def hook(folder):
    make_data(folder)
    table = np.loadtxt(f"{folder}/table.csv", delimiter=",", dtype=np.float64)
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    torch.save(net.state_dict(), f"{folder}/init.pth")
    torch.save({"state": net.state_dict(), "x": torch.tensor(table[:, :5], dtype=torch.float32),
                "y": torch.tensor(table[:, 5], dtype=torch.int64), "batches": sampled(2, BATCH // 2, 10)}, f"{folder}/run.pt")
    env = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    ranks = [subprocess.Popen([sys.executable, "-c", DDP, f"{folder}/run.pt", f"{folder}/theirs.pt"],
                              env=dict(env, RANK=str(rank)), stderr=subprocess.PIPE, text=True) for rank in range(2)]
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    theirs = torch.load(f"{folder}/theirs.pt") if not any(rank.returncode for rank in ranks) else None
    if theirs is None:
        yield "PyTorch's DDP with fp16_compress_hook", f"{[rank.returncode for rank in ranks]}: {said}"
        return
    far = {}
    for kind in ("none", "fp16", "bf16"):
        out = train(folder, kind, "mlp:5,16,3", "csv:{}/table.csv,standardise=no", 2, [*SGD, "--init-from", f"{folder}/init.pth",
                                                                         "--compress", kind, "--bucket-size", "100"])
        far[kind] = max(abs(row["loss"] - b) / b for row, b in zip(curve(out), theirs))
        if kind != "none":
            with open(f"{out}/config.json") as f:
                yield f"config.json has --compress {kind}", "" if json.load(f)["compress"] == kind else "it has not"
    good = len(theirs) == 50 and far["fp16"] <= 5e-6 and far["fp16"] < far["none"] / 4
    yield "2 ranks are PyTorch's DDP with fp16_compress_hook: 50 losses", "" if good else f"apart by {far}"
    yield "bf16 is coarser", "" if far["fp16"] < far["bf16"] <= 0.02 else f"apart by {far}"
    ours = curve(f"{folder}/bf16-2")
    for mode in ("zero1", "zero2", "zero3"):
        many = curve(train(folder, mode, "mlp:5,16,3", "csv:{}/table.csv,standardise=no", 2, [
            *SGD, "--init-from", f"{folder}/init.pth", "--compress", "bf16", "--bucket-size", "100", "--parallel", mode]))
        yield f"{mode} --compress bf16 is ddp's: 50 losses", "" if len(many) == 50 and apart(many, ours) <= 1e-6 else f"apart by {apart(many, ours)}"


def overflow(folder):
    rng = np.random.default_rng(1)
    with open(f"{folder}/table.csv", "w") as f:
        for _ in range(ROWS):
            f.write(",".join(repr(float(v)) for v in 1e7 * rng.normal(size=5).astype(np.float32)) + f",{rng.integers(3)}\n")
    args = ["train", "--model", "mlp:5,3", "--data", f"csv:{folder}/table.csv,standardise=no", "--nproc", 2, "--batch", 6, "--steps", 3,
            "--optimizer", "sgd", "--lr", "1e-12", "-q"]
    said = gtrain(*args, "--compress", "fp16", "--out", f"{folder}/fp16", status=1)
    # Infinite with another sign on each rank, the sum is no number.
    good = re.search("the gradient's norm is (-?inf|nan) at step 1", said) and "--compress fp16" in said
    yield "a gradient that fp16 does not hold ends the run, with a hint", "" if good else said
    gtrain(*args, "--compress", "bf16", "--out", f"{folder}/bf16")
    gtrain(*args, "--out", f"{folder}/none")
    yield "bf16 holds it", ""


def dry_run(folder):
    def plan(*more):
        return json.loads(subprocess.run([GTRAIN, "train", "--model", "mlp:5,16,3", "--data", "random", "--nproc", "2", "--out",
                                          f"{folder}/x", "--dry-run", "--json", *more], check=True, capture_output=True,
                                         text=True).stdout)
    whole, half = plan(), plan("--compress", "bf16")
    good = (half["communicated_bytes_per_step"] * 2 == whole["communicated_bytes_per_step"] and
            half["memory_bytes"]["gradients"] * 2 == whole["memory_bytes"]["gradients"] * 3)
    yield "the plan tells half the bytes sent, and the memory they lie in", "" if good else f"{whole} {half}"


if __name__ == "__main__":
    sys.exit(tap.run((hook, overflow, dry_run), GTRAIN, sys.argv[1:]))
