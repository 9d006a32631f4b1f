#!/usr/bin/env python3
"""amp.py - mixed precision beside PyTorch's autocast, on ranks, through overflows and a kill (TAP).

The networks, weights, batches and optimizers are those of models.py. Rounding to bfloat16 moves a curve much further than two
implementations of float32 are apart, so the yardstick is PyTorch's own: its curve under autocast is some distance from its curve in
float32, and gtrain's under --amp may be twice as far from PyTorch's under autocast. Both are chance in part: with AdamW at this rate,
clipped, the small gpt's yardstick changes twofold with the instruction set that oneDNN takes. PyTorch 1.13 computes the loss of
bfloat16 logits in bfloat16; later releases have it among the ops of float32, as here.

PyTorch 1.13 has neither autocast to float16 on the CPU nor products of float16. There float16 stands beside an emulation of what releases
from 2.4 on do, by the same lists: float32 numbers that are rounded to float16 where theirs are float16, in gradients too (class Autocast).
Its GradScaler needs CUDA; it is written out.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "common")]
import models  # noqa: E402
import tap  # noqa: E402
from program import use_isa  # noqa: E402
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


NATIVE = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)


def autocast(low):
    if low == torch.float16 and not NATIVE:
        return Autocast()
    return contextlib.nullcontext() if low is None else torch.autocast("cpu", low)


def losses(net, run, kind, lr, decay, clip, low):
    """PyTorch's curve, under autocast to `low` unless that is None; and the scales of the loss."""
    net.load_state_dict(run["state"])
    net.train()
    opt = models.optimizer(kind, net, run, lr, lr, decay)
    scaler = Scaler(low == torch.float16)
    out, scales = [], []
    for step in range(len(run["losses"])):
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


STEPS = 40  # enough to see that the loss falls
# PyTorch is slow in bfloat16 without AVX-512: too few to see it.
SLOW = {"resnet20": 4}
# Gradients stay well inside float16's range at the first scale, or well outside it: one at its edge overflows by chance of rounding,
# in PyTorch or in gtrain alone.
#        model, network, batch, optimizer, learning rate, weight decay, clip
CURVES = [
    ("lenet", models.LeNet, 8, "sgd", 0.01, 5e-4, 0),
    ("lenet", models.LeNet, 8, "adamw", 5e-4, 0.1, 1.0),
    ("resnet20", models.ResNet, 4, "sgd", 2e-4, 5e-4, 0),
    (f"gpt:{models.TINY_SPEC}", lambda: models.GPT(vocab=61, **models.TINY), 4, "sgd", 0.02, 5e-4, 0),
    (f"gpt:{models.TINY_SPEC}", lambda: models.GPT(vocab=61, **models.TINY), 4, "adam", 1e-3, 1e-2, 0),
    ("llama:layers=2,heads=4,kv_heads=2,width=32,hidden=48,block=16", lambda: models.Llama(2, 4, 2, 32, 48, 61), 4, "adam", 5e-4, 1e-2, 0),
    ("vit:image=16,patch=4,layers=2,heads=2,width=32,classes=10", lambda: models.vit(16, 4, 2, 2, 32, 10), 8, "sgd", 0.004, 5e-4, 0),
]


def has_bf16():
    try:
        with torch.autocast("cpu"):
            F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))
        return True
    except RuntimeError:
        return False


FIRST_LAYER = {"gpt": lambda net: net.transformer["h"][0], "llama": lambda net: net.model["layers"][0]}


def low_sums(name, net):
    """A network whose residual sums begin in bfloat16, where autocast runs: then all of them are. Norms compute in float32."""
    def narrow(_, args):
        return (args[0].bfloat16() if torch.is_autocast_cpu_enabled() else args[0],)

    FIRST_LAYER[name](net).register_forward_pre_hook(narrow)
    for norm in (m for m in net.modules() if isinstance(m, (models.LayerNorm, models.RMSNorm))):
        norm.forward = lambda x, wide=norm.forward: wide(x.float()).to(x.dtype)
    return net


def compare(path, amp, low, model, network, batch, kind, lr, decay, clip):
    steps = SLOW.get(model, STEPS)
    subprocess.run([os.path.join(models.TESTS, "model_dump"), path, model, kind, str(lr), str(decay), str(clip), str(batch),
                    str(steps), str(lr), amp], check=True)
    run = torch.load(path)
    theirs, scales = losses(network(), run, kind, lr, decay, clip, low)
    exact, _ = losses(network(), run, kind, lr, decay, clip, None)
    # Both round to 16 bits, in sums of different order: two distances of that size, and which is the larger one is chance.
    own = models.worst(theirs, exact)
    far, bound = models.worst(run["losses"], theirs), 3 * own
    ours = models.worst(run["losses"], exact)
    learned = model in SLOW or sum(run["losses"][-5:]) < 0.9 * sum(run["losses"][:5])
    kept = all(v.dtype == torch.float32 for k, v in run["final"].items() if v.is_floating_point())
    same = run["scales"] == (scales if low == torch.float16 else [0] * steps)
    good = 0 < ours and far <= bound and learned and kept and same
    print(f"# {model} {kind} {amp}: {far:.1e} from PyTorch's autocast, which is {own:.1e} from float32, gtrain {ours:.1e}, "
          f"loss scales {sorted(set(run['scales']))}")
    yield (f"{model} {kind}: {amp} is as near PyTorch's autocast as that is to float32",
           "" if good else f"{far:.1e}, bound {bound:.1e}, scales {sorted(set(run['scales']))} and {sorted(set(scales))}")


def curves(folder):
    models.Conv1D = Conv1D
    torch.set_num_threads(1)
    for case in tap.one_in(2, CURVES):
        yield from compare(f"{folder}/run.pth", "fp16", torch.float16, *case)
    if not has_bf16():
        yield "curves beside PyTorch's # SKIP torch: has no convolution in bfloat16 on this processor", ""
        return
    for case in tap.one_in(2, CURVES, 1):
        yield from compare(f"{folder}/run.pth", "bf16-autocast", torch.bfloat16, *case)
    for model, network, *rest in (case for case in CURVES if case[0].split(":")[0] in FIRST_LAYER):
        yield from compare(f"{folder}/run.pth", "bf16", torch.bfloat16, model, lambda name=model.split(":")[0], make=network: low_sums(name, make()), *rest)


GPT = ["--model", "gpt:layers=2,heads=2,width=32,block=16,dropout=0.2", "--batch", 6, "--threads", 1, "--lr", "2e-3"]


def weights(out):
    return torch.load(f"{out}/model.pth")


def same(a, b):
    a, b = weights(a), weights(b)
    return list(a) == list(b) and all(torch.equal(v, b[k]) for k, v in a.items())


WAYS = [("ddp", []), ("mirrored", []), ("dp", []), ("zero1", []), ("zero2", []), ("zero3", []),
        ("ddp", ["--pipeline-parallel", 2, "--chunks", 1]), ("ddp", ["--tensor-parallel", 2]),
        ("ddp", ["--tensor-parallel", 2, "--sequence-parallel"])]


def ranks(folder):
    """2 ranks have the curve of one rank, as near as products of half as many rows, or of half of the sums, in 16 bits are."""
    make_data(folder)
    args = ["train", *GPT, "--data", f"text:{folder}/text.txt", "--steps", 20, "--warmup", 0, "--log-every", 1, "-q", "--drop-last"]
    gtrain(*args, "--batch", 12, "--out", f"{folder}/exact")
    for first, (amp, least) in enumerate((("bf16", 1e-5), ("bf16-autocast", 1e-5), ("fp16", 1e-6))):
        one = f"{folder}/{amp}-one"
        gtrain(*args, "--batch", 12, "--amp", amp, "--out", one)
        own = models.worst(*([row["loss"] for row in curve(name)] for name in (one, f"{folder}/exact")))
        yield f"--amp {amp} is not the curve of float32, but near it", "" if least < own < 3e-2 else f"{own:.1e}"
        for i, (mode, more) in tap.one_in(3, enumerate(WAYS), first):
            out = f"{folder}/{amp}{i}"
            gtrain(*args, "--amp", amp, "--nproc", 2, "--parallel", mode, "--batch", 12 if more else 6, *more, "--out", out)
            far = models.worst(*([row["loss"] for row in curve(name)] for name in (out, one)))
            kept = all(v.dtype == torch.float32 for v in weights(out).values())
            name = f"{mode} {' '.join(map(str, more))} on 2 ranks with --amp {amp} is one rank"
            # Sums in another order round other values to 16 bits: a distance like that of the rounding itself, in either direction.
            yield name, "" if far <= 3 * own and kept else f"{far:.1e}, bound {3 * own:.1e}"


def edited(folder, out, **changes):
    """The checkpoint of a run with another scaler, as PyTorch writes it; those that are None are left out."""
    [name] = os.listdir(f"{out}/checkpoints")
    state = torch.load(f"{out}/checkpoints/{name}")
    state["scaler"] = {k: v for k, v in {**state["scaler"], **changes}.items() if v is not None}
    torch.save(state, f"{folder}/edited.pth")
    return f"{folder}/edited.pth"


def overflows(folder):
    """Scaled gradients overflow for some steps on ranks that share the work in any way: the bits of one rank."""
    make_data(folder)
    args = ["train", "--lr", "2e-3", "--warmup", 0, "--lr-schedule", "constant", "--log-every", 1, "-q", "--amp", "fp16", "--reproducible",
            "--threads", 1]
    ways = ((2, "ddp", 1), (4, "ddp", 1), (2, "mirrored", 1), (2, "dp", 1), (4, "dp", 1), (2, "zero1", 1), (4, "zero2", 1),
            (2, "zero3", 1), (2, "ddp", 2))
    # A resnet also has statistics: ranks have their own, or those of rank 0, or stages have them.
    cases = (("resnet20", 2.0 ** 21, ["--model", "resnet20", "--data", "random:,samples=64"], ways[1::2] + ways[-1:]),
             ("gpt", 2.0 ** 26, [*GPT[:2], "--data", f"text:{folder}/text.txt"], ways))
    for model, scale, more, ways in cases:
        begun = f"{folder}/{model}"
        gtrain(*args, *more, "--batch", 8, "--steps", 2, "--out", begun)
        start = edited(folder, begun, scale=scale, growth_interval=3, _growth_tracker=0)
        args_of = [*args, *more, "--steps", 14, "--resume", start]
        gtrain(*args_of, "--batch", 8, "--out", f"{begun}-one")
        rows = curve(f"{begun}-one")
        skipped, good, scales = [row["grad_norm"] is None for row in rows], 0, []
        for skip in skipped:
            good = 0 if skip else good + 1
            scale *= 0.5 if skip else 2 if good == 3 else 1
            good %= 3
            scales.append(scale)
        found = [row["loss_scale"] for row in rows]
        good = skipped[0] and any(x < y for x, y in zip(found, found[1:])) and found == scales
        yield f"{model}: overflows halve the scale, which grows after 3 updates", "" if good else f"{found}, not {scales}"
        for nproc, mode, stages in tap.one_in(2, ways):
            out = f"{begun}-{mode}{nproc}-{stages}"
            gtrain(*args_of, "--batch", 8 * stages // nproc, "--nproc", nproc, "--parallel", mode, "--pipeline-parallel", stages, "--out", out)
            problem = "" if same(out, f"{begun}-one") else "other weights"
            if [row["loss_scale"] for row in curve(out)] != [row["loss_scale"] for row in rows]:
                problem += " other scales"
            yield f"{model}: {mode}, {nproc} ranks, {stages} stage{'s' * (stages > 1)}, has the bits of one rank", problem


def scalers(folder):
    """The scaler of a checkpoint is that of PyTorch; what goes wrong with it, or in spite of it, is told."""
    make_data(folder)
    args = ["train", *GPT, "--data", f"text:{folder}/text.txt", "-q"]
    begun, ends = f"{folder}/begun", (" at step 3, and gradients overflow", "'scaler'", "the loss is ")
    gtrain(*args, "--amp", "fp16", "--steps", 2, "--out", begun)
    kept = torch.load(edited(folder, begun))["scaler"]
    # PyTorch 1 asks by a name of the scaler's own module, PyTorch 2 by that of the module of the function.
    asks = "grad_scaler" if hasattr(torch.cuda.amp.grad_scaler, "amp_definitely_not_available") else "common"
    with unittest.mock.patch(f"torch.cuda.amp.{asks}.amp_definitely_not_available", lambda: False):
        scaler = torch.cuda.amp.GradScaler()
    scaler.load_state_dict(kept)
    want = {"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 2}
    same = kept == want and scaler.state_dict() == want and [type(v) for v in kept.values()] == [type(v) for v in want.values()]
    yield "torch's GradScaler takes the scaler of a checkpoint", "" if same else f"{kept}, {scaler.state_dict()}"
    gtrain(*args, "--amp", "bf16", "--steps", 2, "--out", f"{folder}/bf16")
    empty = torch.load(edited(folder, f"{folder}/bf16"))["scaler"] == {}
    yield "with bf16 there is none", "" if empty else "not empty"
    gtrain(*args, "--amp", "fp16", "--steps", 4, "--resume", edited(folder, f"{folder}/bf16"), "--out", f"{folder}/on")
    yield "a run of bf16 goes on with fp16", "" if torch.load(edited(folder, f"{folder}/on"))["scaler"]["_growth_tracker"] == 2 else "no scale"
    for changes, text in (({"scale": 2.0 ** 30, "backoff_factor": 1e-14}, ends[0]), ({"scale": float("nan")}, ends[1]), ({"scale": 0.0}, ends[1]),
                          ({"growth_interval": 0}, ends[1]), ({"_growth_tracker": -1}, ends[1]), ({"scale": None}, ends[1])):
        said = gtrain(*args, "--amp", "fp16", "--steps", 9, "--resume", edited(folder, begun, **changes), status=1)
        yield f"{changes} is refused", "" if said.startswith("gtrain: error: ") and text in said.split("\n")[0] else said
    for amp, out, status in (("fp16", begun, 0), ("bf16", f"{folder}/bf16", 1)):  # no update so far: all were skipped, or it is lost
        state = torch.load(edited(folder, out))
        state["optimizer"]["state"] = {}
        torch.save(state, f"{folder}/fresh.pth")
        said = gtrain(*args, "--amp", amp, "--steps", 3, "--resume", f"{folder}/fresh.pth", "--out", f"{folder}/fresh-{amp}", status=status)
        good = "optimizer state" in said if status else torch.load(edited(folder, f"{folder}/fresh-{amp}"))["optimizer"]["state"][0]["step"] == 1
        yield f"{amp}: a checkpoint without optimizer state is {'refused' if status else 'that of a run whose steps were all skipped'}", \
            "" if good else said
    state = torch.load(f"{begun}/model.pth")
    torch.save({k: v * 1e6 for k, v in state.items()}, f"{folder}/large.pth")
    said = gtrain(*args, "--amp", "fp16", "--steps", 9, "--init-from", f"{folder}/large.pth", status=1)
    yield "a loss that is not finite ends the run", "" if ends[2] in said and "--amp bf16" in said else said


def count_lines(path):
    """Of a file that is being written: its last line may be cut."""
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as f:
        return f.read().count(b"\n")


def killed(folder):
    """A run killed between checkpoints goes on from the last one, in the precision that its config.json has."""
    make_data(folder)
    args = ["train", *GPT, "--data", f"text:{folder}/text.txt", "--steps", 200, "--save-every", 25, "--log-every", 1, "-q",
            "--val-split", "0.2", "--eval-every", 50]
    for amp, nproc, mode, more in tap.one_in(2, (("bf16", 1, "ddp", []), ("bf16", 2, "zero2", []), ("fp16", 1, "ddp", []), ("fp16", 2, "zero2", []),
                                                 ("fp16", 2, "ddp", ["--pipeline-parallel", 2])), 1):
        whole, cut = (f"{folder}/{name}-{amp}{nproc}{len(more)}" for name in ("whole", "cut"))
        more = ["--amp", amp, "--nproc", nproc, "--parallel", mode, *more]
        gtrain(*args, *more, "--out", whole)
        run = subprocess.Popen([GTRAIN, *map(str, [*args, *more, "--out", cut])], stderr=subprocess.DEVNULL, start_new_session=True)
        until = time.time() + 100
        while time.time() < until and run.poll() is None:
            if count_lines(f"{cut}/metrics.jsonl") > 60:
                break
            time.sleep(0.005)
        kill(run, cut)
        reached = run.returncode == -signal.SIGKILL and not os.path.exists(f"{cut}/model.pth")
        with open(f"{cut}/config.json") as f:
            kept = json.load(f)["amp"] == amp
        gtrain("train", "--out", cut, "--resume", "auto", "-q")
        problem = "" if reached and kept else "it was not killed on its way, or config.json lacks --amp"
        ends = [torch.load(f"{out}/checkpoints/step-00000200.pth")["scaler"] for out in (whole, cut)]
        problem = problem or ("" if same(whole, cut) else "other weights") or ("" if ends[0] == ends[1] else f"{ends}")
        yield f"{amp}, {nproc} ranks, {mode}{' in stages' * (len(more) > 6)}: killed and resumed has the bits of one run", problem


def plans(folder):
    """The dry run counts values in bfloat16 as 2 bytes, elements of the store as 4, and working copies of the parameters."""
    make_data(folder)
    plan = {}
    for amp in ("off", "bf16"):
        said = subprocess.run([GTRAIN, "train", *map(str, GPT), "--data", f"text:{folder}/text.txt", "--steps", "3", "--batch", "32",
                               "--amp", amp, "--dry-run", "--json"], capture_output=True, text=True, check=True).stdout
        plan[amp] = json.loads(said)["memory_bytes"]
    stored = all(plan["off"][k] == plan["bf16"][k] for k in ("gradients", "optimizer", "buffers"))
    stored = stored and 2 * plan["bf16"]["parameters"] == 3 * plan["off"]["parameters"]
    share = plan["bf16"]["arena"] / plan["off"]["arena"]
    yield "the plan's arena shrinks, the store grows by the working copies alone", "" if stored and 0.4 < share < 0.9 else f"{plan}"


if __name__ == "__main__":
    use_isa()
    sys.exit(tap.run((curves, ranks, overflows, scalers, killed, plans), GTRAIN, sys.argv[1:]))
