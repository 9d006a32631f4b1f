#!/usr/bin/env python3
"""amp.py - mixed precision beside PyTorch's autocast, on ranks, and through a kill (TAP).

The networks, weights, batches and optimizers are those of models.py. Rounding to bfloat16 moves a curve much further than two
implementations of float32 are apart, so the yardstick is PyTorch's own: its curve under autocast is some distance from its curve in
float32, and gtrain's under --amp may be twice as far from PyTorch's under autocast. Both are chance in part: with AdamW at this rate,
clipped, the small gpt's yardstick changes twofold with the instruction set that oneDNN takes. PyTorch 1.13 computes the loss of
bfloat16 logits in bfloat16; later releases have it among the ops of float32, as here.

PyTorch 1.13 has neither autocast to float16 on the CPU nor products of float16. Float16 stands here beside an emulation of what later
releases do, by the same lists: float32 numbers that are rounded to float16 where theirs are float16, in gradients too (class Autocast).
Its GradScaler needs CUDA; it is written out.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "common")]
import models  # noqa: E402
import tap  # noqa: E402
from training import GTRAIN, curve, gtrain, kill, make_data, torch  # noqa: E402

F = torch.nn.functional


class Conv1D(models.Conv1D):
    """Hugging Face's is one addmm, which autocast knows; a sum by itself would be float32."""

    def forward(self, x):
        rows = x.flatten(0, -2)
        y = rows @ self.weight if self.bias is None else torch.addmm(self.bias, rows, self.weight)
        return y.view(*x.shape[:-1], -1)


class Round(torch.autograd.Function):
    """To float16 and back, numbers and gradients."""

    @staticmethod
    def forward(ctx, x):
        return x.half().float()

    @staticmethod
    def backward(ctx, d):
        return d.half().float()


class Autocast(torch.overrides.TorchFunctionMode):
    """torch.autocast("cpu", torch.float16), emulated. A tensor that is marked stands for one of float16."""

    LOW = {"conv2d", "linear", "matmul", "__matmul__", "addmm", "mm", "bmm"}
    BY_FIRST = {"batch_norm", "layer_norm"}  # they take float32 weights beside a low input

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, kwargs = func.__name__, kwargs or {}
        real = [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
        low = name in self.LOW
        if low:
            args = [Round.apply(x) if any(x is y for y in real) else x for x in args]
        out = func(*args, **kwargs)
        if not real or not low and not all(hasattr(x, "low") for x in (real[:1] if name in self.BY_FIRST else real)):
            return out
        if isinstance(out, (tuple, list)):
            return type(out)(map(self.mark, out))
        return self.mark(out)

    @staticmethod
    def mark(x):
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            with torch._C.DisableTorchFunction():
                x = Round.apply(x)
            x.low = True
        return x


class Scaler:
    """torch.cuda.amp.GradScaler, as far as it is needed here."""

    def __init__(self, enabled):
        self.enabled, self.scale, self.good = enabled, 65536.0 if enabled else 1.0, 0

    def unscale(self, net):
        """Whether there is an update."""
        grads = [p.grad for p in net.parameters()]
        for g in grads:
            g.mul_(1 / self.scale)
        found = not all(bool(g.isfinite().all()) for g in grads)
        if self.enabled:
            self.good = 0 if found else self.good + 1
            self.scale *= 0.5 if found else 2 if self.good == 2000 else 1
        return not (found and self.enabled)


def autocast(low):
    if low == torch.float16:
        return Autocast()
    return contextlib.nullcontext() if low is None else torch.autocast("cpu", low)


def losses(net, run, kind, lr, decay, clip, low):
    """PyTorch's curve, under autocast to `low` unless that is None; and the scales of the loss."""
    net.load_state_dict(run["state"])
    net.train()
    opt = models.optimizer(kind, net, run, lr, lr, decay)
    scaler = Scaler(low == torch.float16)
    out, scales = [], []
    for step in range(models.STEPS):
        at = step % len(run["inputs"])
        with autocast(low):
            logits = net(models.prepared(run["inputs"][at], run))
        loss = F.cross_entropy(logits.float().flatten(0, -2), run["targets"][at].long().flatten())
        opt.zero_grad()
        (loss * scaler.scale).backward()
        if scaler.unscale(net):
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip or float("inf"))
            opt.step()
        out.append(float(loss.detach()))
        scales.append(scaler.scale)
    return out, scales


#        model, network, batch, optimizer, learning rate, weight decay, clip
CURVES = [
    ("lenet", models.LeNet, 8, "sgd", 0.005, 5e-4, 0),
    ("lenet", models.LeNet, 8, "adamw", 1e-3, 0.1, 1.0),
    ("resnet20", models.ResNet, 16, "sgd", 1e-3, 5e-4, 0),
    (f"gpt:{models.TINY_SPEC}", lambda: models.GPT(vocab=61, **models.TINY), 4, "sgd", 0.02, 5e-4, 0),
    (f"gpt:{models.TINY_SPEC}", lambda: models.GPT(vocab=61, **models.TINY), 4, "adam", 1e-3, 1e-2, 0),
]


def has_bf16():
    try:
        with torch.autocast("cpu"):
            F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))
        return True
    except RuntimeError:
        return False


def compare(path, amp, low, model, network, batch, kind, lr, decay, clip):
    subprocess.run([os.path.join(models.TESTS, "model_dump"), path, model, kind, str(lr), str(decay), str(clip), str(batch),
                    str(models.STEPS), str(lr), amp], check=True)
    run = torch.load(path)
    theirs, scales = losses(network(), run, kind, lr, decay, clip, low)
    exact, _ = losses(network(), run, kind, lr, decay, clip, None)
    far, bound = models.worst(run["losses"], theirs), 2 * models.worst(theirs, exact)
    ours = models.worst(run["losses"], exact)
    learned = sum(run["losses"][-5:]) < 0.9 * sum(run["losses"][:5])
    kept = all(v.dtype == torch.float32 for k, v in run["final"].items() if v.is_floating_point())
    same = run["scales"] == (scales if low == torch.float16 else [0] * models.STEPS)
    good = 0 < ours and far <= bound and learned and kept and same
    print(f"# {model} {kind} {amp}: {far:.1e} from PyTorch's autocast, which is {bound / 2:.1e} from float32, gtrain {ours:.1e}, "
          f"loss scales {sorted(set(run['scales']))}")
    yield (f"{model} {kind}: {amp} is as near PyTorch's autocast as that is to float32",
           "" if good else f"{far:.1e}, bound {bound:.1e}, scales {sorted(set(run['scales']))} and {sorted(set(scales))}")


def curves(folder):
    models.Conv1D = Conv1D
    torch.set_num_threads(1)
    for case in CURVES:
        yield from compare(f"{folder}/run.pth", "fp16", torch.float16, *case)
    if not has_bf16():
        yield "curves beside PyTorch's # SKIP torch: has no convolution in bfloat16 on this processor", ""
        return
    for case in CURVES:
        yield from compare(f"{folder}/run.pth", "bf16", torch.bfloat16, *case)


GPT = ["--model", "gpt:layers=2,heads=2,width=32,block=16,dropout=0.2", "--batch", 6, "--threads", 1, "--lr", "2e-3"]


def weights(out):
    return torch.load(f"{out}/model.pth")


def same(a, b):
    a, b = weights(a), weights(b)
    return list(a) == list(b) and all(torch.equal(v, b[k]) for k, v in a.items())


def ranks(folder):
    """Modes that add up gradients of 2 ranks have the curve of one rank, as near as products of half as many rows in bfloat16 are."""
    make_data(folder)
    args = ["train", *GPT, "--data", f"text:{folder}/text.txt", "--steps", 30, "--warmup", 0, "--log-every", 1, "-q", "--drop-last"]
    gtrain(*args, "--batch", 12, "--out", f"{folder}/exact")
    gtrain(*args, "--batch", 12, "--amp", "bf16", "--out", f"{folder}/one")
    own = models.worst(*([row["loss"] for row in curve(f"{folder}/{name}")] for name in ("one", "exact")))
    yield "--amp bf16 is not the curve of float32, but near it", "" if 1e-5 < own < 3e-2 else f"{own:.1e}"
    for mode in ("ddp", "mirrored", "dp", "zero1", "zero2", "zero3"):
        out = f"{folder}/{mode}"
        gtrain(*args, "--amp", "bf16", "--nproc", 2, "--parallel", mode, "--out", out)
        far = models.worst(*([row["loss"] for row in curve(f"{folder}/{name}")] for name in (mode, "one")))
        kept = all(v.dtype == torch.float32 for v in weights(out).values())
        yield f"{mode} on 2 ranks with --amp bf16 is one rank", "" if far <= 2 * own and kept else f"{far:.1e}, bound {2 * own:.1e}"


def killed(folder):
    """A run killed between checkpoints goes on from the last one, in the precision that its config.json has."""
    make_data(folder)
    args = ["train", *GPT, "--data", f"text:{folder}/text.txt", "--steps", 400, "--save-every", 50, "--log-every", 1, "-q",
            "--val-split", "0.2", "--eval-every", 100]
    for nproc, mode in ((1, "ddp"), (2, "zero2")):
        whole, cut = f"{folder}/whole{nproc}", f"{folder}/cut{nproc}"
        more = ["--amp", "bf16", "--nproc", nproc, "--parallel", mode]
        gtrain(*args, *more, "--out", whole)
        run = subprocess.Popen([GTRAIN, *map(str, [*args, *more, "--out", cut])], stderr=subprocess.DEVNULL, start_new_session=True)
        until = time.time() + 100
        while time.time() < until and run.poll() is None:
            if os.path.exists(f"{cut}/metrics.jsonl") and len(curve(cut)) > 120:
                break
            time.sleep(0.005)
        kill(run, cut)
        reached = run.returncode == -signal.SIGKILL and not os.path.exists(f"{cut}/model.pth")
        with open(f"{cut}/config.json") as f:
            kept = json.load(f)["amp"] == "bf16"
        gtrain("train", "--out", cut, "--resume", "auto", "-q")
        problem = "" if reached and kept else "it was not killed on its way, or config.json lacks --amp"
        yield f"{nproc} ranks, {mode}: killed and resumed has the bits of one run", problem or ("" if same(whole, cut) else "others")


def plans(folder):
    """The dry run counts values in bfloat16 as 2 bytes, and elements of the store as 4."""
    make_data(folder)
    plan = {}
    for amp in ("off", "bf16"):
        said = subprocess.run([GTRAIN, "train", *map(str, GPT), "--data", f"text:{folder}/text.txt", "--steps", "3", "--batch", "32",
                               "--amp", amp, "--dry-run", "--json"], capture_output=True, text=True, check=True).stdout
        plan[amp] = json.loads(said)["memory_bytes"]
    stored = all(plan["off"][k] == plan["bf16"][k] for k in ("parameters", "gradients", "optimizer", "buffers"))
    share = plan["bf16"]["arena"] / plan["off"]["arena"]
    yield "the plan's arena shrinks, the store does not", "" if stored and 0.4 < share < 0.9 else f"{plan}"


def refusals(folder):
    make_data(folder)
    args = ["train", *GPT, "--data", f"text:{folder}/text.txt", "--steps", 3, "--amp", "bf16", "--nproc", 2, "--out", f"{folder}/x"]
    for way in ("pipeline", "tensor"):
        for more in ([], ["--dry-run"]):
            said = gtrain(*args, f"--{way}-parallel", 2, *more, status=2)
            good = said.startswith(f"gtrain: error: --amp cannot be combined with --{way}-parallel\n") and not os.path.exists(f"{folder}/x")
            yield f"--{way}-parallel is refused {' '.join(more)}", "" if good else said


if __name__ == "__main__":
    sys.exit(tap.run((curves, ranks, killed, plans, refusals), GTRAIN, sys.argv[1:]))
