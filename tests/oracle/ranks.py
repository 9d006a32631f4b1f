#!/usr/bin/env python3
"""ranks.py - training on several ranks: the curve of one rank, that of PyTorch's DDP, whoever is lost on the way (TAP)."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from launchers import environments, free_port  # noqa: E402
from training import BATCH, COMMON, GTRAIN, apart, curve, gtrain, make_data, sampled, torch, train  # noqa: E402
import numpy as np  # noqa: E402

#        model, data: what to train, options
MODELS = [
    ("mlp:5,16,3", "csv:{}/table.csv", ["--optimizer", "sgd", "--lr", "0.05"]),
    ("mlp:5,16,3", "csv:{}/table.csv", ["--optimizer", "adamw", "--lr", "0.005", "--clip", "0.5", "--bucket-size", "1"]),
    ("lenet", "random:,samples=60", ["--optimizer", "sgd", "--lr", "0.01"]),
    ("gpt:layers=2,heads=2,width=32,block=16", "text:{}/text.txt", ["--optimizer", "adamw", "--lr", "1e-3"]),
    ("gpt:layers=2,heads=2,width=32,block=16,dropout=0.2", "text:{}/text.txt", ["--optimizer", "sgd", "--lr", "0.02"]),
]


def curves(folder):
    make_data(folder)
    for i, (model, data, options) in enumerate(MODELS):
        runs = {n: train(folder, f"m{i}", model, data, n, options) for n in (1, 2, 3, 4)}
        one = curve(runs[1])
        for n in (2, 3, 4):
            many, far = curve(runs[n]), apart(curve(runs[n]), one)
            keys = list(torch.load(f"{runs[n]}/model.pth"))
            problem = "" if len(many) == 50 and far <= 1e-6 else f"{len(many)} steps, losses apart by {far:.1e}"
            if keys != list(torch.load(f"{runs[1]}/model.pth")) or any(k.startswith("module.") for k in keys):
                problem = f"keys {keys}"
            yield f"{model} {' '.join(options)}: {n} ranks have the curve of one, 50 steps", problem


def rings(folder):
    """Sums that go from neighbour to neighbour."""
    make_data(folder)
    ones = {i: curve(train(folder, f"one{i}", *MODELS[i][:2], 1, MODELS[i][2])) for i in (1, 3)}
    for i, kind, n in ((1, "ddp", 3), (1, "mirrored", 2), (1, "dp", 3), (3, "ddp", 4), (3, "zero1", 2), (3, "zero2", 3), (3, "zero3", 2)):
        model, data, options = MODELS[i]
        many = curve(train(folder, f"{kind}{i}", model, data, n, [*options, "--parallel", kind, "--backend", "ring"]))
        far = apart(many, ones[i])
        yield f"{model}: {kind} of {n} ranks on a ring has the curve of one", "" if len(many) == 50 and far <= 1e-6 else f"apart by {far:.1e}"


def accumulation(folder):
    make_data(folder)
    model, data, options = MODELS[3]
    one = curve(train(folder, "one", model, data, 1, options))
    two = curve(train(folder, "two", model, data, 2, [*options, "--accumulate", "3"], batch=4))
    far = apart(two, one)
    yield "2 ranks x 3 micro-batches x 2 samples are a batch of 12", "" if far <= 1e-6 else f"apart by {far:.1e}"


def evaluation(folder):
    """87 samples on 2 and 4 ranks in batches of 5: each counts once."""
    make_data(folder)
    options = ["--val", "random:,samples=87", "--optimizer", "sgd", "--lr", "0.01", "--eval-every", "10"]
    runs = {n: train(folder, "e", "lenet", "random:,samples=60", n, options) for n in (1, 2, 4)}
    one = curve(runs[1], "val")
    for n in (2, 4):
        many = curve(runs[n], "val")
        good = [r["n"] for r in many] == [87] * 5 and apart(many, one) <= 1e-6 and all(
            a["top1"] == b["top1"] for a, b in zip(many, one))
        yield f"validation on {n} ranks is that on one", "" if good else f"{many} {one}"


def resuming(folder):
    """The global order of samples goes on in the middle of an epoch, on other ranks too."""
    make_data(folder)
    model, data, options = MODELS[3]
    whole = curve(train(folder, "whole", model, data, 1, options))
    args = ["train", "--model", model, "--data", data.format(folder), "--out", f"{folder}/parts", *COMMON, *options]
    for steps, nproc in ((17, 4), (33, 3), (50, 1)):
        args[args.index("--steps") + 1] = steps
        gtrain(*args, "--resume", "auto", "--nproc", nproc, "--batch", BATCH // nproc)
    far = apart(curve(f"{folder}/parts"), whole)
    yield "4 ranks, then 3, then 1 go through one curve", "" if far <= 1e-6 else f"apart by {far:.1e}"
    args[args.index("--steps") + 1] = 60
    args.remove("-q")
    said = gtrain(*args, "--resume", "auto", "--nproc", 2, "--batch", BATCH)
    yield "another global batch goes on", "" if "steps now, not" in said and len(curve(f"{folder}/parts")) == 60 else said


# ---- other launchers

def elsewhere(folder):
    make_data(folder)
    model, data, options = MODELS[0]
    one = curve(train(folder, "one", model, data, 1, options))
    config = Path(folder, "of_4.json")
    config.write_text('{"nproc": 4}')
    for name in [name for name, _ in environments(0)]:
        environment = dict(environments(free_port()))[name]
        out = f"{folder}/{name}"
        args = [GTRAIN, "train", "--model", model, "--data", data.format(folder), "--batch", str(BATCH // 2), *COMMON, *options]
        ranks = [subprocess.Popen([*args, "--config", config, "--out", out], env={**os.environ, **environment(i)},
                                  stderr=subprocess.PIPE, text=True) for i in range(2)]
        said = "".join(rank.communicate(timeout=60)[1] for rank in ranks)
        far = apart(curve(out), one) if not any(rank.returncode for rank in ranks) else None
        yield f"2 processes of {name} train as one", "" if far is not None and far <= 1e-6 else f"apart by {far}: {said}"
        for number in ("1", "4"):
            done = subprocess.run([*args, "--out", f"{out}-{number}", "--nproc", number], env={**os.environ, **environment(0)},
                                  stderr=subprocess.PIPE, text=True, timeout=60)
            good = done.returncode == 2 and f"--nproc {number}: the launcher (" in done.stderr and ") has started 2 ranks" in done.stderr
            yield f"{name}: --nproc {number} is refused", "" if good else done.stderr or f"status {done.returncode}"
    for alone in ({"RANK": "0", "WORLD_SIZE": "1"}, {"WORLD_SIZE": "1"}, {"RANK": "0"}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
                  {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}):
        out = f"{folder}/{'-'.join(alone)}"
        done = subprocess.run([*args, "--out", out, "--nproc", "2"], env={**os.environ, **alone}, stderr=subprocess.PIPE, text=True)
        far = None if done.returncode else apart(curve(out), one)
        yield f"{' '.join(alone)} of one process: --nproc starts the ranks", "" if far is not None and far <= 1e-6 else done.stderr or far


def differing(folder):
    """Ranks compare their options: a 0 that is given differs from a default that is yet to be computed."""
    for option, text in (("--warmup", "warmup differs: 'null' on rank 0, '0' on rank 1"),
                         ("--weight-decay", "weight-decay differs: 'null' on rank 0, '0.0' on rank 1"),
                         ("--seed", None)):
        environment = dict(environments(free_port()))["torchrun"]
        args = [GTRAIN, "train", "--model", "mlp:8,16,3", "--data", "random:8/3,samples=64", "--steps", "30", "--out", f"{folder}{option}"]
        ranks = [subprocess.Popen([*args, *([option, "0"] if i else [])], env={**os.environ, **environment(i)},
                                  stderr=subprocess.PIPE, text=True) for i in range(2)]
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        good = all(rank.returncode == 2 and text in s for rank, s in zip(ranks, said)) if text else not any(r.returncode for r in ranks)
        yield f"2 ranks of which one has {option} 0 are {'refused' if text else 'alike: that is the default'}", "" if good else "".join(said) or "accepted"


# ---- PyTorch's DDP

DDP = """
import os, sys, torch, torch.distributed as dist
torch.set_num_threads(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
run = torch.load(sys.argv[1])
net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
net.load_state_dict(run["state"])
net = torch.nn.parallel.DistributedDataParallel(net)
opt = torch.optim.SGD(net.parameters(), lr=run["lr"], momentum=0.9)
losses = []
for batches in run["batches"]:
    index = batches[rank]
    loss = torch.nn.functional.cross_entropy(net(run["x"][index]), run["y"][index])
    opt.zero_grad()
    loss.backward()
    opt.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    losses.append(float(loss) / world)
if rank == 0:
    torch.save({"losses": losses, "state": net.module.state_dict()}, sys.argv[2])
"""


def torch_ddp(folder):
    if not torch.distributed.is_available():
        yield "PyTorch's DDP # SKIP no torch.distributed", ""
        return
    make_data(folder)
    table = np.loadtxt(f"{folder}/table.csv", delimiter=",", dtype=np.float64)
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    torch.save(net.state_dict(), f"{folder}/init.pth")
    torch.save({"state": net.state_dict(), "lr": 0.05, "x": torch.tensor(table[:, :5], dtype=torch.float32),
                "y": torch.tensor(table[:, 5], dtype=torch.int64), "batches": sampled(2, 6, 10)}, f"{folder}/run.pt")
    env = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    ranks = [subprocess.Popen([sys.executable, "-c", DDP, f"{folder}/run.pt", f"{folder}/theirs.pt"],
                              env=dict(env, RANK=str(rank))) for rank in range(2)]
    if any([rank.wait(60) for rank in ranks]):
        yield "PyTorch's DDP", "it failed"
        return
    out = train(folder, "ours", "mlp:5,16,3", "csv:{}/table.csv,standardise=no", 2,
                ["--optimizer", "sgd", "--lr", "0.05", "--weight-decay", "0", "--init-from", f"{folder}/init.pth"])
    theirs, ours = torch.load(f"{folder}/theirs.pt"), torch.load(f"{out}/model.pth")
    losses = [row["loss"] for row in curve(out)]
    far = max(abs(a - b) / b for a, b in zip(losses, theirs["losses"]))
    weights = max(float((ours[k] - v).abs().max()) for k, v in theirs["state"].items())
    good = len(losses) == len(theirs["losses"]) == 50 and far <= 1e-5 and weights <= 1e-5
    yield "2 ranks are PyTorch's DDP with gloo: 50 losses, weights", "" if good else f"apart by {far:.1e}, weights {weights:.1e}"


# ---- ranks that are lost

def ranks_of(launcher):
    with open(f"/proc/{launcher}/task/{launcher}/children") as f:
        return [int(pid) for pid in f.read().split()]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def begin(folder, name, *more, nproc=3):
    args = ["train", "--model", "mlp:5,16,3", "--data", f"csv:{folder}/table.csv", "--batch", "4", "--nproc", nproc, "--out",
            f"{folder}/{name}", "--steps", "1000000", "--save-every", "200", "--log-every", "100", *more]
    run = subprocess.Popen([GTRAIN, *map(str, args)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not os.path.exists(f"{folder}/{name}/checkpoints/step-00000200.pth"):
        time.sleep(0.01)
    return run, ranks_of(run.pid)


def gone(run, ranks, started, seconds):
    """Waits for the end; what is wrong with how it came."""
    run.wait(30)
    took = time.monotonic() - started
    left = [pid for pid in ranks if alive(pid)]
    if left:
        return f"ranks {left} are left"
    return "" if took <= seconds else f"it took {took:.1f} s"


def losses(folder):
    make_data(folder)
    gtrain("train", "--model", "nonsense", "--data", "random", "--nproc", 2, "--out", f"{folder}/runs/none", status=2)
    left = os.listdir(f"{folder}/runs")
    yield "ranks that cannot begin leave no run directory", f"{left} is left" if left else ""

    run, ranks = begin(folder, "killed")
    started = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    said = run.stderr.read()
    problem = gone(run, ranks, started, 3) or ("" if run.returncode == 1 and "stopping after this step" not in said and (
        f"warning: rank 1 was killed by SIGKILL; its log is {folder}/killed/log/rank-1.log\n" in said) else f"{run.returncode}: {said}")
    yield "a rank that is killed ends the job, and is named with its log", problem
    last = max(os.listdir(f"{folder}/killed/checkpoints"))[5:-4]
    hint = f"the last checkpoint is that of step {int(last)}; go on with: gtrain train --resume auto --out {folder}/killed\n"
    error = "gtrain: error: the job has failed, because rank 1 was killed\n"
    yield "and the command that goes on is told, before the error", "" if said.endswith(hint + error) else said
    log = open(f"{folder}/killed/log/rank-2.log").read()
    yield "nobody else speaks of a signal", log if "stopping" in log or "rank 1 died" not in log else ""

    run, ranks = begin(folder, "stopped", "--timeout", "2s")
    started = time.monotonic()
    os.kill(ranks[2], signal.SIGSTOP)
    said = run.stderr.read()
    problem = gone(run, ranks, started, 7) or ("" if run.returncode == 1 and "rank 2 is late" in said else f"{run.returncode}: {said}")
    yield "a rank that is stopped is named with what it is late for", problem

    run, ranks = begin(folder, "launcher")
    run.kill()
    time.sleep(1)
    left = [pid for pid in ranks if alive(pid)]
    run.stderr.read()
    yield "a launcher that is killed takes its ranks along", f"ranks {left} are left" if left else ""

    run, ranks = begin(folder, "asked")
    started = time.monotonic()
    run.send_signal(signal.SIGTERM)
    said = run.stderr.read()
    problem = gone(run, ranks, started, 5) or ("" if run.returncode == -signal.SIGTERM and "go on with" in said else f"{run.returncode}: {said}")
    yield "SIGTERM to the launcher: the step is finished and saved", problem

    run, ranks = begin(folder, "again", "--max-restarts", "1", "--steps", "600")
    os.kill(ranks[0], signal.SIGKILL)
    said = run.stderr.read()
    run.wait(60)
    good = run.returncode == 0 and os.path.exists(f"{folder}/again/model.pth") and "resuming from" in said
    yield "a rank that is killed, and --max-restarts 1: the run goes on", "" if good else f"{run.returncode}: {said}"


if __name__ == "__main__":
    sys.exit(tap.run((curves, rings, accumulation, evaluation, resuming, elsewhere, differing, torch_ddp, losses), GTRAIN, sys.argv[1:]))
