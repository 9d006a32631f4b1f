#!/usr/bin/env python3
"""muon.py - Muon beside the authors' formulas in PyTorch, on ranks, in checkpoints, and the lines that refuse it (TAP)."""
import glob
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import BATCH, GTRAIN, apart, curve, distance, gtrain, kill, make_data, np, sampled, torch, train, use_isa  # noqa: E402
from muon_reference import Muon, hidden  # noqa: E402, I001: behind the module that skips where there is no torch

STEPS = 100
GPT = ("gpt:layers=2,heads=2,width=32,block=16", "text:{}/text.txt", ["--lr", "0.01", "--adam-lr", "1e-3", "--clip", "1"])
LENET = ("lenet", "random:,samples=60", ["--lr", "0.002", "--adam-lr", "5e-4", "--clip", "0.5"])
OPTIONS = ["--optimizer", "muon", "--bucket-size", "10K"]
FIXED = ["--warmup", "0", "--log-every", "1", "--drop-last", "--seed", "3", "-q"]
COMMON = [*FIXED, "--lr-schedule", "constant", "--steps"]


# ---- beside PyTorch

def mlp():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(5, 24), torch.nn.ReLU(), torch.nn.Linear(24, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


def theirs(folder, rows, lr, adam_lr, weight_decay, clip, adjust):
    """Losses and weights of PyTorch with the rates of these rows."""
    table = np.loadtxt(f"{folder}/table.csv", delimiter=",", dtype=np.float64)
    x, y = torch.tensor(table[:, :5], dtype=torch.float32), torch.tensor(table[:, 5], dtype=torch.int64)
    net, losses = mlp(), []
    opt = Muon(net, lr, adam_lr, weight_decay, {n for n, _ in net.named_parameters()}, adjust)
    for row, [index] in zip(rows, sampled(1, BATCH, STEPS * BATCH // len(table))):
        opt.lr = row["lr"]
        for group in opt.adam.param_groups:
            group["lr"] = adam_lr * row["lr"] / lr
        loss = torch.nn.functional.cross_entropy(net(x[index]), y[index])
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        opt.step()
        losses.append({"loss": float(loss.detach())})
    return losses, net.state_dict()


def beside_torch(folder):
    """100 steps on one rank, on two that divide the matrices, and in micro-batches; with both ways to adjust the rate."""
    make_data(folder)
    torch.save(mlp().state_dict(), f"{folder}/init.pth")
    for adjust, schedule, lr in (("original", "constant", 0.01), ("original", "cosine", 0.01), ("match_rms_adamw", "constant", 0.005)):
        args = ["--optimizer", "muon", "--lr", lr, "--adam-lr", "0.002", "--weight-decay", "0.05", "--clip", "0.5", "--adjust-lr", adjust,
                "--lr-schedule", schedule, "--init-from", f"{folder}/init.pth"]
        for name, nproc, sharing, more in (("one rank", 1, 1, []), ("zero1 on 2 ranks", 2, 1, ["--parallel", "zero1"]),
                                           ("2 micro-batches", 1, 2, ["--accumulate", "2"])):
            out = train(folder, f"{adjust}-{schedule}-{name}".replace(" ", "-"), "mlp:5,24,16,3", "csv:{}/table.csv,standardise=no", nproc,
                        [*args, *more], batch=BATCH // sharing, common=[*FIXED, "--steps", STEPS])
            ours = curve(out)
            losses, state = theirs(folder, ours, lr, 0.002, 0.05, 0.5, adjust)
            far, weights = apart(ours, losses), distance(torch.load(f"{out}/model.pth"), dict(state))
            good = len(ours) == len(losses) == STEPS and far <= 1e-4 and weights <= 1e-4 and losses[-1]["loss"] < losses[0]["loss"]
            yield (f"{adjust}, {schedule}, {name}: {STEPS} steps are PyTorch's",
                   "" if good else f"{len(ours)} losses, apart by {far:.1e}, weights {weights:.1e}")


# ---- ranks

def ranks(folder):
    """Every way to share the work has the curve of one rank."""
    make_data(folder)
    ways = [*((f"{mode} on {n} ranks", n, 1, ["--parallel", mode]) for mode in ("zero1", "zero2", "zero3") for n in (2, 3)),
            ("ddp on 2 ranks", 2, 1, ["--check-replicas", "5"]), ("dp on 2 ranks", 2, 1, ["--parallel", "dp"]),
            ("2 stages", 2, 2, ["--pipeline-parallel", "2"])]
    for model, data, options in (GPT, LENET):
        one = curve(train(folder, f"{model[:3]}-one", model, data, 1, [*OPTIONS, *options], common=[*COMMON, "30"]))
        for name, n, sharing, more in tap.one_in(2, ways, model == LENET[0]):
            out = train(folder, f"{model[:3]}-{name}".replace(" ", "-"), model, data, n, [*OPTIONS, *options, *more], sharing=sharing,
                        common=[*COMMON, "30"])
            many = curve(out)
            far = apart(many, one) if len(many) == len(one) == 30 else 1
            yield f"{model[:5]}: {name} have the curve of one", "" if far <= 1e-5 else f"apart by {far:.1e}"


# ---- checkpoints

def final(out):
    with open(f"{out}/model.pth", "rb") as f:
        return f.read()


def checkpoints(folder):
    """Groups and states in a checkpoint; a run goes on to the same bits, from a file that PyTorch wrote too."""
    make_data(folder)
    model, data, options = GPT
    args = ["train", "--model", model, "--data", data.format(folder), "--batch", BATCH, *OPTIONS, *options, *COMMON]
    gtrain(*args, 12, "--out", f"{folder}/whole")
    whole = final(f"{folder}/whole")
    gtrain(*args, 5, "--out", f"{folder}/half")
    path = f"{folder}/half/checkpoints/step-00000005.pth"
    ck = torch.load(path)
    names = [n for n in ck["model"] if n != "lm_head.weight"]
    takes = [n for n in names if ck["model"][n].ndim > 1 and "wte" not in n and "wpe" not in n]
    tables = [n for n in names if "wte" in n or "wpe" in n]
    order = [*takes, *tables, *(n for n in names if ck["model"][n].ndim == 1)]
    groups, state = ck["optimizer"]["param_groups"], ck["optimizer"]["state"]
    wrong = [n for i, n in enumerate(order)
             if set(state[i]) != ({"momentum_buffer"} if n in takes else {"step", "exp_avg", "exp_avg_sq"})
             or any(v.shape != ck["model"][n].shape for k, v in state[i].items() if k != "step")]
    yield "a checkpoint has momentum_buffer for matrices and AdamW's states for the others", f"{wrong}" if wrong else ""
    seen = [(len(g["params"]), g["lr"], g["weight_decay"], g.get("use_muon", False)) for g in groups]
    wanted = [(len(takes), 0.01, 0.1, True), (2, 1e-3, 0.1, False), (len(order) - len(takes) - 2, 1e-3, 0, False)]
    good = seen == wanted and groups[0]["ns_coefficients"] == (3.4445, -4.7750, 2.0315) and groups[0]["adjust_lr_fn"] == "original"
    yield "its groups have torch.optim.Muon's names and AdamW's", "" if good else f"{groups}"
    gtrain(*args, 12, "--out", f"{folder}/half", "--resume", "auto")
    yield "a run that goes on has the bits of one that never stopped", "" if final(f"{folder}/half") == whole else "other bits"
    torch.save(ck, f"{folder}/again.pth")
    gtrain(*args, 12, "--out", f"{folder}/again", "--resume", f"{folder}/again.pth")
    yield "a checkpoint that PyTorch has saved goes on to the same bits", "" if final(f"{folder}/again") == whole else "other bits"
    modes = {mode: ["--batch", BATCH // 2, "--parallel", mode] for mode in ("zero1", "zero2", "zero3")}
    for mode, options in (*modes.items(), ("tensor", ["--tensor-parallel", 2])):
        shared = ["--nproc", 2, *options]
        gtrain(*args, 12, *shared, "--out", f"{folder}/{mode}")
        gtrain(*args, 5, *shared, "--out", f"{folder}/{mode}-half")
        theirs = torch.load(glob.glob(f"{folder}/{mode}-half/checkpoints/*5.pth")[0])["optimizer"]
        far = distance(theirs, ck["optimizer"])
        gtrain(*args, 12, *shared, "--out", f"{folder}/{mode}-half", "--resume", "auto")
        same = final(f"{folder}/{mode}-half") == final(f"{folder}/{mode}")
        yield f"{mode}: 2 ranks save the same states, and go on to the same bits", "" if same and far <= 1e-4 else f"{same}, {far:.1e}"
    adamw = gtrain("train", "--config", f"{folder}/half/config.json", "--out", f"{folder}/no", "--optimizer", "adamw", "--resume", path, status=2)
    yield "a run of Muon does not go on with AdamW", "" if "trained with another --optimizer" in adamw else adamw


def killed(folder):
    """Kill 2 ranks of zero1 in the middle of a step: the run goes on to the bits of one that was left alone."""
    make_data(folder)
    model, data, options = GPT
    args = ["train", "--model", model, "--data", data.format(folder), "--nproc", 2, "--batch", BATCH // 2, "--parallel", "zero1", "--save-every", 7,
            "--keep", 1, *OPTIONS, *options, *COMMON]
    run = subprocess.Popen([GTRAIN, *map(str, args), "100000", "--out", f"{folder}/killed"], stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not glob.glob(f"{folder}/killed/checkpoints/step-*.pth") and time.monotonic() < deadline:
        time.sleep(0.01)
    kill(run, f"{folder}/killed")
    at = max(int(p[-12:-4]) for p in glob.glob(f"{folder}/killed/checkpoints/step-*.pth"))
    gtrain(*args, at + 5, "--out", f"{folder}/killed", "--resume", "auto")
    gtrain(*args, at + 5, "--out", f"{folder}/alone")
    yield "2 ranks of zero1, killed: the same bits", "" if final(f"{folder}/killed") == final(f"{folder}/alone") else f"other bits at step {at + 5}"


# ---- lines

def lines(folder):
    make_data(folder)
    args = ["train", "--model", GPT[0], "--data", GPT[1].format(folder), "--out", f"{folder}/no", "--steps", 2, "-q"]
    for option, value in (("adam-lr", "1e-3"), ("adjust-lr", "original")):
        said = gtrain(*args, f"--{option}", value, status=2)
        yield f"--{option} is Muon's", "" if f"--{option} has no effect" in said and "--optimizer muon" in said else said
    said = gtrain(*args, "--optimizer", "muon", "--nesterov", status=2)
    yield "--nesterov is not", "" if "--nesterov has no effect" in said else said


if __name__ == "__main__":
    use_isa()
    assert hidden(mlp()) == {"0.weight", "2.weight"}
    sys.exit(tap.run((beside_torch, ranks, checkpoints, killed, lines), GTRAIN, sys.argv[1:]))
