#!/usr/bin/env python3
"""ema.py - the mean of the weights (--ema) beside PyTorch's AveragedModel, evaluated, on ranks and in checkpoints (TAP)."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import BATCH, GTRAIN, apart, curve, distance, gtrain, make_data, torch  # noqa: E402
from torch.optim.swa_utils import AveragedModel  # noqa: E402, I001: behind the module that skips

GPT = ("gpt:layers=2,heads=2,width=32,block=16", "text:{}/text.txt", ["--lr", "3e-3", "--clip", "1", "--bucket-size", "10K", "--eps", "1e-4"])
LENET = ("lenet", "random:,samples=60", ["--optimizer", "sgd", "--lr", "0.01", "--seed", "0"])  # of eval, which draws its samples
COMMON = ["--lr-schedule", "constant", "--warmup", "0", "--log-every", "1", "--drop-last", "--seed", "3", "-q"]


def run(folder, name, job, steps, *more, nproc=1, sharing=1):
    """Train on `nproc` ranks, of which `sharing` at a time see the same samples. Returns the directory."""
    model, data, options = job
    out = f"{folder}/{name}"
    gtrain("train", "--model", model, "--data", data.format(folder), "--steps", steps, "--batch", BATCH * sharing // nproc, "--nproc", nproc,
           "--out", out, *COMMON, *options, *more)
    return out


def bits(path):
    with open(path, "rb") as f:
        return f.read()


def checkpoint(out, step):
    return torch.load(f"{out}/checkpoints/step-{step:08}.pth")


# ---- the mean

class Weights(torch.nn.Module):
    """A state_dict as a module: floating-point tensors are parameters, unless they are running statistics."""

    def __init__(self, state):
        super().__init__()
        self.own = torch.nn.ParameterDict({k.replace(".", "/"): torch.nn.Parameter(v.clone()) for k, v in state.items() if learned(k)})

    def take(self, state):
        with torch.no_grad():
            for k, p in self.own.items():
                p.copy_(state[k.replace("/", ".")])


def learned(name):
    return not name.endswith(("running_mean", "running_var", "num_batches_tracked"))


def beside_torch(folder):
    """The mean after each step is AveragedModel's; buffers are the model's."""
    make_data(folder)
    for model, data, decay, steps in ((GPT[0], GPT[1], 0.9, 12), ("lenet", "random:,samples=60", 0.3, 8), ("resnet20", "random:,samples=24", 0.99, 4)):
        out = run(folder, model[:3], (model, data, ["--lr", "1e-2"]), steps, "--ema", decay, "--save-every", 1, "--keep", 0)
        net, mean, far, same = None, None, 0, True
        for step in range(1, steps + 1):
            ck = checkpoint(out, step)
            net = net or Weights(ck["model"])
            net.take(ck["model"])
            mean = mean or AveragedModel(net, avg_fn=lambda average, new, _: torch.lerp(average, new, 1 - decay))
            mean.update_parameters(net)
            want = {k.replace("/", "."): v.detach() for k, v in mean.module.own.items()}
            far = max(far, distance({k: v for k, v in sorted(ck["model_ema"].items()) if learned(k)}, dict(sorted(want.items()))))
            same &= all(torch.equal(v, ck["model"][k]) for k, v in ck["model_ema"].items() if not learned(k))
            same &= list(ck["model_ema"]) == list(ck["model"])
        last = torch.load(f"{out}/model_ema.pth", weights_only=True)
        same &= all(torch.equal(last[k], v) for k, v in ck["model_ema"].items())
        moved = distance(ck["model"], ck["model_ema"])
        yield f"{model[:8]}: {steps} steps of decay {decay} are AveragedModel's", "" if far <= 2e-6 and same and moved > 1e-3 else f"{far:.1e} {same} {moved}"


# ---- evaluation

def evaluation(folder):
    """Evaluations are of the mean, and say so; training does not notice."""
    make_data(folder)
    for job in (GPT, LENET):
        kind = job[0][:5]
        val = ["--val", "random:,samples=30"] if job is LENET else ["--val", GPT[1].format(folder)]
        out = run(folder, kind, job, 12, *val, "--eval-every", 4, "--ema", 0.7, "--save-every", 4, "--keep", 0)
        plain = run(folder, f"{kind}-plain", job, 12, *val, "--eval-every", 4)
        same = bits(f"{out}/model.pth") == bits(f"{plain}/model.pth")
        yield f"{kind}: weights are those of a run without a mean", "" if same else "other bits"
        rows = curve(out, "val")
        good = [r.get("ema") for r in rows] == [True] * 3 and not any("ema" in r for r in curve(plain, "val"))
        yield f"{kind}: metrics.jsonl says that evaluations are of the mean", "" if good else f"{rows}"
        done = subprocess.run([GTRAIN, "eval", "--ckpt", f"{out}/model_ema.pth", "--model", job[0], "--data", val[1], "--batch", "12", "--json"],
                              capture_output=True, text=True)
        loss = json.loads(done.stdout)["loss"] if not done.returncode else -1
        good = abs(loss - rows[-1]["loss"]) <= 1e-6 * loss and abs(curve(plain, "val")[-1]["loss"] - loss) > 1e-5 * loss
        yield f"{kind}: the last evaluation is eval's of model_ema.pth", "" if good else f"{loss} {rows[-1]} {done.stderr}"
        best = json.loads(json.dumps(checkpoint(out, 12)["best"]["step"]))
        far = distance(torch.load(f"{out}/best.pth"), checkpoint(out, best)["model_ema"])
        yield f"{kind}: best.pth is the mean of the best step", "" if far == 0 else f"step {best}: {far}"
    said = subprocess.run([GTRAIN, "train", "--config", f"{out}/config.json", "--out", f"{folder}/told", "--seed", "4"], capture_output=True, text=True)
    yield "a line on the terminal says so", "" if ", of the EMA" in said.stderr else said.stderr


# ---- ranks

WAYS = [("ddp", 2, 1, []), ("mirrored", 2, 1, ["--parallel", "mirrored"]), ("dp", 2, 1, ["--parallel", "dp"]),
        *((mode, n, 1, ["--parallel", mode]) for mode in ("zero1", "zero2", "zero3") for n in (2, 3)),
        ("pipeline", 2, 2, ["--pipeline-parallel", "2"]), ("tensor", 2, 2, ["--tensor-parallel", "2"]),
        ("a grid", 8, 4, ["--tensor-parallel", "2", "--pipeline-parallel", "2", "--parallel", "zero1"])]


def ranks(folder):
    """In every mode the mean is that of one rank, evaluated and saved; runs go on to the same bits."""
    make_data(folder)
    val = ["--val", GPT[1].format(folder), "--eval-every", 3, "--ema", 0.8]
    one = run(folder, "one", GPT, 12, *val)
    for name, n, sharing, more in WAYS:
        out = run(folder, f"{name}-{n}", GPT, 12, *val, *more, nproc=n, sharing=sharing)
        far = distance(torch.load(f"{out}/model_ema.pth"), torch.load(f"{one}/model_ema.pth"))
        losses = max(apart(curve(out, s), curve(one, s)) for s in ("val", "train"))
        weights = distance(torch.load(f"{out}/model.pth"), torch.load(f"{one}/model.pth"))
        good = far <= 1e-4 and losses <= 1e-5 and weights <= 1e-4 and len(curve(out, "val")) == 4
        yield f"{name} on {n} ranks: the mean of one rank", "" if good else f"mean {far:.1e}, losses {losses:.1e}, weights {weights:.1e}"
        half = run(folder, f"{name}-{n}-half", GPT, 7, *val, *more, nproc=n, sharing=sharing)
        run(folder, f"{name}-{n}-half", GPT, 12, *val, *more, "--resume", "auto", nproc=n, sharing=sharing)
        same = all(bits(f"{half}/{f}") == bits(f"{out}/{f}") for f in ("model.pth", "model_ema.pth", "best.pth"))
        yield f"{name} on {n} ranks: a run goes on to the same bits", "" if same else "other bits"
    half = run(folder, "half", GPT, 7, *val)
    run(folder, "half", GPT, 12, *val, "--resume", "auto")
    same = all(bits(f"{half}/{f}") == bits(f"{one}/{f}") for f in ("model.pth", "model_ema.pth", "best.pth"))
    yield "one rank: a run goes on to the same bits", "" if same else "other bits"


def muon(folder):
    """With Muon, whose tensors are whole under ZeRO."""
    make_data(folder)
    options = ["--ema", "0.8", "--optimizer", "muon", "--lr", "0.01", "--adam-lr", "1e-3"]
    one, two = run(folder, "one", GPT, 10, *options), run(folder, "two", GPT, 10, *options, "--parallel", "zero1", nproc=2)
    far = distance(torch.load(f"{two}/model_ema.pth"), torch.load(f"{one}/model_ema.pth"))
    yield "Muon on 2 ranks of zero1: the mean of one rank", "" if far <= 1e-4 else f"{far:.1e}"


# ---- lines

def lines(folder):
    make_data(folder)
    out = run(folder, "a", GPT, 2, "--ema", 0.9)
    args = ["train", "--config", f"{out}/config.json", "--out", f"{folder}/no", "--steps", 4]
    for value in ("0", "1", "1.5"):
        said = gtrain(*args, "--ema", value, status=2)
        yield f"--ema {value} is refused", "" if "--ema" in said else said
    said = gtrain(*args, "--ema", "0.5", "--resume", f"{out}/checkpoints/step-00000002.pth", status=2)
    yield "another decay does not go on", "" if "it was trained with another --ema" in said else said
    ck = checkpoint(out, 2)
    del ck["config"]["ema"]
    torch.save(ck, f"{folder}/before_ema.pth")
    said = gtrain(*args, "--resume", f"{folder}/before_ema.pth", status=2)
    yield "nor does one on a checkpoint that knows no such option", "" if "it was trained with another --ema" in said else said
    ck = checkpoint(out, 2)
    del ck["model_ema"]["transformer.wte.weight"]
    torch.save(ck, f"{folder}/cut.pth")
    said = gtrain(*args, "--resume", f"{folder}/cut.pth", status=1)
    yield "a checkpoint that lacks a mean is refused", "" if "'transformer.wte.weight' under 'model_ema' is missing" in said else said
    ck = checkpoint(out, 2)
    ck["model_ema"]["transformer.wte.weight"][0, 0] = float("nan")
    torch.save(ck, f"{folder}/nan.pth")
    said = gtrain(*args, "--resume", f"{folder}/nan.pth", status=1)
    yield "a mean that is NaN is refused", "" if "mean of 'transformer.wte.weight' holds nan" in said else said


if __name__ == "__main__":
    sys.exit(tap.run((beside_torch, evaluation, ranks, muon, lines), GTRAIN, sys.argv[1:]))
