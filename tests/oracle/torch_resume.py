#!/usr/bin/env python3
"""torch_resume.py - a run that PyTorch began goes on in gtrain, and the other way round, as if it had stayed (TAP)."""
import json
import math
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from tap import run  # noqa: E402
from training import BATCH, COMMON, GTRAIN, ROWS, curve, gtrain, make_data, np, sampled, torch  # noqa: E402

import models  # noqa: E402

EACH = ROWS // BATCH  # steps of an epoch
BEGUN, GOES_ON = 2 * EACH + 3, 20
MODEL = "mlp:5,7,3"
# The optimizer in PyTorch, options of gtrain, how far a loss may be off.
OPTIMIZERS = {
    "sgd": (lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01), [], 1e-5),
    "adam": (lambda p: torch.optim.Adam(p, 0.02, weight_decay=0.01), [], 1e-4),
    "adamw": (lambda p: torch.optim.AdamW(p, 0.02, betas=(0.8, 0.95), weight_decay=0.1), ["--betas", "0.8,0.95"], 1e-4),
}
OPTIONS = [option for option in COMMON if option != "-q"]


def table(folder):
    rows = np.loadtxt(f"{folder}/table.csv", delimiter=",", dtype=np.float32)
    return torch.from_numpy(rows[:, :5]), torch.from_numpy(rows[:, 5].astype(np.int64))


class Peer:
    """A network that PyTorch trains on the samples that gtrain's sampler draws."""

    def __init__(self, folder, kind, net=None):
        torch.manual_seed(1)
        self.net = net or torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
        self.optimizer = OPTIMIZERS[kind][0](self.net.parameters())
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1)
        self.x, self.y = table(folder)
        self.steps = [rows[0] for rows in sampled(1, BATCH, 10)]
        self.step = 0

    def train(self, steps):
        losses = []
        for rows in self.steps[self.step:self.step + steps]:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.net(self.x[rows]), self.y[rows])
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        self.step += steps
        return losses

    def weights(self, prefix=""):
        return {prefix + key: value.clone() for key, value in self.net.state_dict().items()}


# ---- how each program saves

def plain(peer, path):
    torch.save({"model": peer.weights("module."), "optimizer": peer.optimizer.state_dict(), "epoch": peer.step // EACH,
                "step": peer.step, "args": {"width": 7}}, path)


def of_numpy(value):
    """Numbers as loops leave them that take rates from an array; pairs as a command line gives them."""
    if isinstance(value, (list, tuple)):
        return list(value)
    kinds = {bool: np.bool_, int: np.int64, float: np.float64}
    return kinds[type(value)](value) if type(value) in kinds else value


def numpy_numbers(peer, path):
    state = peer.optimizer.state_dict()
    groups = [{key: value if key == "params" else of_numpy(value) for key, value in group.items()} for group in state["param_groups"]]
    torch.save({"model": peer.weights(), "optimizer": {**state, "param_groups": groups}, "epoch": np.int32(peer.step // EACH),
                "step": np.float32(peer.step)}, path)


def long_names(peer, path):
    torch.save({"model_state_dict": peer.weights("_orig_mod."), "optimizer_state_dict": peer.optimizer.state_dict(),
                "scheduler": peer.scheduler.state_dict(), "epoch": peer.step // EACH, "global_step": peer.step}, path)


def iterations(peer, path):
    torch.save({"iter": peer.step, "net": peer.weights(), "optim": peer.optimizer.state_dict()}, path,
               _use_new_zipfile_serialization=False)


def lightning(peer, path):
    """pytorch-lightning 2, trainer/connectors/checkpoint_connector.py, dump_checkpoint(); weights of LightningModule.model."""
    progress = {"total": {"ready": peer.step, "completed": peer.step}, "current": {"ready": peer.step % EACH, "completed": peer.step % EACH}}
    torch.save({"epoch": peer.step // EACH, "global_step": peer.step, "pytorch-lightning_version": "2.1.0",
                "state_dict": peer.weights("model."), "loops": {"fit_loop": {"epoch_loop.batch_progress": progress}},
                "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.5)}},
                "optimizer_states": [peer.optimizer.state_dict()], "lr_schedulers": [peer.scheduler.state_dict()],
                "hparams_name": "kwargs", "hyper_parameters": {"lr": 0.05}}, path)


def save_safetensors(path, tensors):
    """huggingface/safetensors, README.md, "Format"; keys in their order, as its writer has them for one type."""
    header, data = {}, b""
    for key in sorted(tensors):
        raw = tensors[key].numpy().tobytes()
        header[key] = {"dtype": "F32", "shape": list(tensors[key].shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def trainer(peer, path, save=lambda peer, path: save_safetensors(f"{path}/model.safetensors", peer.weights())):
    """transformers 4, trainer.py, _save_checkpoint(); trainer_callback.py, TrainerState."""
    os.mkdir(path)
    save(peer, path)
    torch.save(peer.optimizer.state_dict(), f"{path}/optimizer.pt")
    torch.save(peer.scheduler.state_dict(), f"{path}/scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()}, f"{path}/rng_state.pth")
    with open(f"{path}/trainer_state.json", "w") as f:
        json.dump({"epoch": peer.step / EACH, "global_step": peer.step, "log_history": [{"loss": 1.5, "step": 1}]}, f)
    with open(f"{path}/config.json", "w") as f:
        json.dump({"model_type": "mlp"}, f)


def old_trainer(peer, path):
    """The same of before safetensors."""
    trainer(peer, path, lambda peer, path: torch.save(peer.weights(), f"{path}/pytorch_model.bin"))


def accelerate(peer, path):
    """accelerate, checkpointing.py, save_accelerator_state(). It keeps no step: Adam's own counts, or the scheduler's."""
    os.mkdir(path)
    save_safetensors(f"{path}/model.safetensors", peer.weights())
    torch.save(peer.optimizer.state_dict(), f"{path}/optimizer.bin")
    torch.save(peer.scheduler.state_dict(), f"{path}/scheduler.bin")
    torch.save({"random_state": (3, (1, 2), None), "torch_manual_seed": torch.get_rng_state()}, f"{path}/random_states_0.pkl")
    torch.save({"seen": 7}, f"{path}/custom_checkpoint_0.pkl")


#       how it is saved, its name, parts of what gtrain says
FORMS = [
    (plain, "their.pt", ["a checkpoint of PyTorch: state_dict found under 'model'; 'module.' removed from 4 keys", "these parts of it are not used: 'args'\n"]),
    (numpy_numbers, "their.np", []),
    (long_names, "their.pth", ["'_orig_mod.' removed from", "its schedule is not used"]),
    (iterations, "their.th", ["state_dict found under 'net'"]),
    (lightning, "their.ckpt", ["a checkpoint of PyTorch Lightning", "not used: 'pytorch-lightning_version', 'loops', 'callbacks'"]),
    (trainer, "checkpoint-13", ["a checkpoint of Hugging Face's Trainer", "'rng_state.pth'"]),
    (old_trainer, "checkpoint-old", ["a checkpoint of Hugging Face's Trainer"]),
    (accelerate, "accelerated", ["a checkpoint of accelerate", "'custom_checkpoint_0.pkl'"]),
]


def options(folder, kind, steps, *more):
    args = [*OPTIONS, "--model", MODEL, "--data", f"csv:{folder}/table.csv,standardise=no", "--batch", BATCH, "--optimizer", kind, *OPTIMIZERS[kind][1], *more]
    args[args.index("--steps") + 1] = steps
    return args


def off(rows, losses):
    """How far a curve is from PyTorch's losses; 1 where there are not as many."""
    if len(rows) != len(losses):
        return 1
    return max(abs(row["loss"] - loss) / abs(loss) for row, loss in zip(rows, losses))


def goes_on(folder):
    make_data(folder)
    for kind, (_, _, bound) in OPTIMIZERS.items():
        for save, name, parts in FORMS:
            peer = Peer(folder, kind)
            peer.train(BEGUN)
            path, out = f"{folder}/{kind}-{name}", f"{folder}/{kind}-{name}-run"
            save(peer, path)
            said = gtrain("train", "--resume", path, "--out", out, *options(folder, kind, BEGUN + GOES_ON))
            rows = curve(out)
            far = off(rows, peer.train(GOES_ON))
            lr = peer.optimizer.param_groups[0]["lr"]
            taken = f"taken: 4 tensors of weights, {kind} with states of 4 parameters, step {BEGUN}, epoch {BEGUN // EACH}, lr {lr:g}\n"
            missing = [part for part in [taken, *parts] if part not in said]
            wrong = [(row["step"], row["epoch"]) for i, row in enumerate(rows) if (row["step"], row["epoch"]) != (BEGUN + i + 1, (BEGUN + i) // EACH)]
            if "'.'" in said or "'..'" in said:
                missing.append("names of files alone")
            yield f"{kind}: {name} goes on with PyTorch's curve", f"apart by {far:.1e}, said {said}" if far > bound else (
                f"not said: {missing}, but {said}" if missing else f"steps and epochs: {wrong}" if wrong else "")


def without_a_step(folder):
    """An epoch alone gives the step; SGD without momentum has no state."""
    make_data(folder)
    peer = Peer(folder, "sgd")
    peer.train(3 * EACH)
    torch.save({"model": peer.weights(), "optimizer": peer.optimizer.state_dict(), "epoch": 3}, f"{folder}/epoch.pt")
    gtrain("train", "--resume", f"{folder}/epoch.pt", "--out", f"{folder}/run", *options(folder, "sgd", 3 * EACH + 4))
    far = off(curve(f"{folder}/run"), peer.train(4))
    yield "an epoch alone tells the step", "" if far <= 1e-5 else f"apart by {far:.1e}"
    peer = Peer(folder, "sgd")
    peer.optimizer = torch.optim.SGD(peer.net.parameters(), 0.05)
    peer.scheduler = torch.optim.lr_scheduler.LambdaLR(peer.optimizer, lambda step: 1)
    peer.train(4)
    torch.save({"model": peer.weights(), "optimizer": peer.optimizer.state_dict(), "step": 4}, f"{folder}/bare.pt")
    gtrain("train", "--resume", f"{folder}/bare.pt", "--out", f"{folder}/bare", *options(folder, "sgd", 10))
    far = off(curve(f"{folder}/bare"), peer.train(6))
    config = json.load(open(f"{folder}/bare/config.json"))
    yield "SGD without momentum goes on, and its settings become the run's", "" if far <= 1e-5 and (
        config["momentum"], config["weight-decay"], config["lr"]) == (0, 0, 0.05) else f"apart by {far:.1e}, {config}"
    # What gtrain saves of it is its own, and goes on by itself, on two ranks.
    gtrain("train", "--resume", f"{folder}/bare", "--nproc", 2, "--batch", BATCH // 2, "--steps", 16, "-q")
    far = off(curve(f"{folder}/bare")[6:], peer.train(6))
    yield "and once more from gtrain's own checkpoint, on two ranks", "" if far <= 1e-5 else f"apart by {far:.1e}"
    peer = Peer(folder, "adamw")
    peer.train(2)
    numpy_numbers(peer, f"{folder}/betas.pt")
    words = options(folder, "adamw", 3)
    words[words.index("--betas") + 1] = "0.9,0.99"
    said = gtrain("train", "--resume", f"{folder}/betas.pt", "--out", f"{folder}/betas", *words)
    yield "betas in a list are compared", "" if "its optimizer has betas=0.8,0.95; --betas 0.9,0.99 counts" in said else said


class Backwards(torch.nn.Module):
    """The same network, its layers declared the other way round: so are the optimizer's parameters."""

    def __init__(self):
        super().__init__()
        self.add_module("2", torch.nn.Linear(7, 3))
        self.add_module("0", torch.nn.Linear(5, 7))

    def forward(self, x):
        return getattr(self, "2")(torch.relu(getattr(self, "0")(x)))


def renamed(folder):
    make_data(folder)
    peer = Peer(folder, "adamw")
    peer.net = Backwards()
    peer.optimizer = OPTIMIZERS["adamw"][0](peer.net.parameters())
    peer.scheduler = torch.optim.lr_scheduler.LambdaLR(peer.optimizer, lambda step: 1)
    peer.train(BEGUN)
    names = {"0": "fc1", "2": "head.out"}
    weights = {names[key[0]] + key[1:]: value for key, value in peer.weights().items()}
    torch.save({"net": weights, "optimizer": peer.optimizer.state_dict(), "step": BEGUN}, f"{folder}/names.pt")
    gtrain("train", "--resume", f"{folder}/names.pt", "--out", f"{folder}/run", *options(folder, "adamw", BEGUN + GOES_ON),
           "--map", "^fc1=0", "--map", r"^head\.out=2")
    far = off(curve(f"{folder}/run"), peer.train(GOES_ON))
    yield "--map renames the keys of another program's checkpoint", "" if far <= 1e-4 else f"apart by {far:.1e}"
    own = next(Path(folder, "run", "checkpoints").glob("step-*.pth"))
    subprocess.run([GTRAIN, "ckpt", "rename", own, "-o", f"{folder}/own.pth", "--map", "^0=fc1", "-q"], check=True)
    rename = "'gtrain ckpt rename' renames keys of a checkpoint"
    for more, *texts in ([], "2 unexpected, the first is 'fc1.", rename), \
            (["--map", "^fc1=0"], "--resume: --map is only for checkpoints of other programs", "'gtrain ckpt rename' renames such keys"):
        done = subprocess.run([GTRAIN, "train", "--resume", f"{folder}/own.pth", "--config", f"{folder}/run/config.json", "--out",
                               f"{folder}/on", *more], stderr=subprocess.PIPE, text=True)
        good = done.returncode in (1, 2) and all(text in done.stderr for text in texts)
        yield f"gtrain's own checkpoint with other keys {' '.join(more)}: 'ckpt rename' is for it", "" if good else done.stderr


def another_order(folder):
    make_data(folder)
    for kind, (optimizer, _, bound) in OPTIMIZERS.items():
        peer = Peer(folder, kind)
        peer.net = Backwards()
        peer.optimizer = optimizer(peer.net.parameters())
        peer.scheduler = torch.optim.lr_scheduler.LambdaLR(peer.optimizer, lambda step: 1)
        peer.train(7)
        lightning(peer, f"{folder}/{kind}.ckpt")
        for more in ([], ["--nproc", 2, "--batch", BATCH // 2, "--parallel", "zero2"]):
            out = f"{folder}/{kind}{len(more)}"
            gtrain("train", "--resume", f"{folder}/{kind}.ckpt", "--out", out, *options(folder, kind, 17, *more))
            if not more:
                losses = peer.train(10)
            far = off(curve(out), losses)
            yield f"{kind}: parameters in another order{', on two ranks' if more else ''}", "" if far <= bound else f"apart by {far:.1e}"


def is_bias(name):
    return name.endswith("bias")


# The groups of programs: names of each one's parameters, and its weight decay; sizes of layers.
MLP_GROUPS = [
    ("Hugging Face's Trainer", [(lambda n: not is_bias(n), 0.1), (is_bias, 0)], MODEL),
    ("timm", [(is_bias, 0), (lambda n: not is_bias(n), 0.1)], MODEL),
    ("layers of one shape", [(is_bias, 0), (lambda n: not is_bias(n), 0.1)], "mlp:5,5,5,3"),
    ("one layer decays", [(lambda n: n[0] == "2", 0.1), (lambda n: n[0] != "2", 0)], MODEL),
    ("a group without parameters", [(lambda n: False, 0.5), (lambda n: True, 0.1)], MODEL),
    # The first group that could take 0.weight must not: only one way leads to the end.
    ("the second fit", [(lambda n: n in ("2.weight", "4.weight", "4.bias"), 0.1), (lambda n: n[0] == "0" or n == "2.bias", 0)], "mlp:5,5,5,3"),
]


def group_peer(folder, kinds, model):
    peer = Peer(folder, "adamw", equal_layers() if model != MODEL else None)
    groups = [{"params": [p for n, p in peer.net.named_parameters() if takes(n)], "weight_decay": decay} for takes, decay in kinds]
    peer.optimizer = torch.optim.AdamW(groups, 0.02, betas=(0.8, 0.95))
    peer.scheduler = torch.optim.lr_scheduler.LambdaLR(peer.optimizer, lambda step: 1)
    peer.train(7)
    return peer


def groups(folder):
    """Groups in any order, with any weight decay, are found by the shapes of their states."""
    make_data(folder)
    for i, (name, kinds, model) in enumerate(MLP_GROUPS):
        peer = group_peer(folder, kinds, model)
        paths = [f"{folder}/{i}-{save.__name__}" for save in (plain, trainer, accelerate)]
        for save, path in zip((plain, trainer, accelerate), paths):
            save(peer, path)
        losses, parameters = peer.train(10), [n for n, _ in peer.net.named_parameters()]
        decayed = sum(takes(n) for n in parameters for takes, decay in kinds if decay)
        for path in paths:
            said = gtrain("train", "--resume", path, "--out", f"{path}-run", *options(folder, "adamw", 12, "--model", model))
            gtrain("train", "--resume", f"{path}-run", "--steps", 17, "-q")
            far = off(curve(f"{path}-run"), losses)
            told = f"weight decay 0.1: {decayed} parameters have it, {len(parameters) - decayed} have none\n" in said
            yield f"groups: {name}, {os.path.basename(path)}", "" if far <= 1e-5 and told else f"apart by {far:.1e}: {said}"


def ambiguous_groups(folder):
    """Groups that shapes do not tell apart are refused, unless {lr-scale} or the model's own weight decay does."""
    make_data(folder)
    model = "mlp:5,5,5,3"
    halves = [(lambda n: n[0] == "0" or n == "4.weight", 0.1), (lambda n: n[0] == "2" or n == "4.bias", 0)]
    hint = "save names of parameters with the optimizer"
    peer = group_peer(folder, halves, model)
    plain(peer, f"{folder}/halves.pt")
    yield from refused_file(folder, "two layers of one shape in two groups", f"{folder}/halves.pt", [],
                            f"groups hold 3 and 3 parameters, and their states do not tell which ones\nhint: {hint}")
    peer.optimizer.param_groups[0].update(lr=0.06, initial_lr=0.06)
    plain(peer, f"{folder}/rates.pt")
    gtrain("train", "--resume", f"{folder}/rates.pt", "--out", f"{folder}/rates",
           *options(folder, "adamw", 17, "--model", model, "--lr-scale", "0.*=3", "--lr-scale", "4.weight=3"))
    peer.scheduler = torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD(peer.net.parameters(), 1), lambda step: 1)
    far = off(curve(f"{folder}/rates"), peer.train(10))
    yield "learning rates tell groups apart", "" if far <= 1e-4 else f"apart by {far:.1e}"
    peer = group_peer(folder, halves, model)
    order = list(reversed(list(peer.net.parameters())))
    peer.optimizer = torch.optim.AdamW([{"params": order[:3]}, {"params": order[3:], "weight_decay": 0}], 0.02)
    peer.train(1)
    plain(peer, f"{folder}/reversed.pt")
    yield from refused_file(folder, "groups in another order than the state_dict", f"{folder}/reversed.pt", [],
                            "hold states of 3 and 3 parameters, whose shapes do not follow the order of the state_dict\nhint: groups with the names")


# Settings of an optimizer, each in place of torch's default: options are not needed to go on with the same losses.
SETTINGS = [
    ("sgd", lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True), {}),
    ("sgd", lambda p: torch.optim.SGD(p, 0.05, momentum=0.8, weight_decay=0.01), {"foreach": True, "fused": None, "differentiable": True}),
    ("adam", lambda p: torch.optim.Adam(p, 0.02, betas=(0.7, 0.9), eps=1e-3), {"capturable": True, "maximize": False}),
    ("adamw", lambda p: torch.optim.AdamW(p, 0.02, betas=(0.7, 0.9), eps=1e-3), {"lr": torch.tensor(0.02), "decoupled_weight_decay": True, "max_lr": 1.0}),
]


def settings(folder):
    make_data(folder)
    for i, (kind, optimizer, more) in enumerate(SETTINGS):
        peer = Peer(folder, kind)
        peer.optimizer = optimizer(peer.net.parameters())
        peer.scheduler = torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD(peer.net.parameters(), 1), lambda step: 1)
        peer.train(7)
        state = peer.optimizer.state_dict()
        state["param_groups"] = [{**group, **more} for group in state["param_groups"]]
        torch.save({"model": peer.weights(), "optimizer": state, "step": 7}, f"{folder}/{i}.pt")
        args = options(folder, kind, 17)
        if "--betas" in args:
            del args[args.index("--betas"):args.index("--betas") + 2]
        said = gtrain("train", "--resume", f"{folder}/{i}.pt", "--out", f"{folder}/{i}", *args)
        far = off(curve(f"{folder}/{i}"), peer.train(10))
        yield f"settings of {kind} are taken ({i})", "" if far <= 1e-5 and "warning" not in said else f"apart by {far:.1e}: {said}"
        config = json.load(open(f"{folder}/{i}/config.json"))
        group = {**peer.optimizer.param_groups[0]}
        wrong = [key for key in ("nesterov", "momentum", "betas", "eps") if key in group and config[key] not in (group[key], list(group.get(key, [])) if key == "betas" else None)]
        yield f"and config.json has them ({i})", f"{wrong}: {config}" if wrong else ""
    said = gtrain("train", "--resume", f"{folder}/0.pt", "--out", f"{folder}/other", *options(folder, "sgd", 17, "--momentum", 0.5))
    yield "an option counts, and a warning says so", "" if "its optimizer has momentum=0.9; --momentum 0.5 counts" in said else said
    state["param_groups"][0]["rectify"] = True
    torch.save({"model": peer.weights(), "optimizer": state, "step": 7}, f"{folder}/unknown.pt")
    said = gtrain("train", "--resume", f"{folder}/unknown.pt", "--out", f"{folder}/unknown", *options(folder, "adamw", 8))
    yield "settings that torch.optim does not have are told", "" if "torch.optim does not have are ignored: 'rectify'" in said else said


def rates(folder):
    """Groups with rates of their own go on with --lr-scale."""
    make_data(folder)
    peer = Peer(folder, "adamw")
    first, second = [[p for n, p in peer.net.named_parameters() if n[0] == name] for name in "02"]
    peer.optimizer = torch.optim.AdamW([{"params": first}, {"params": second, "lr": 0.06}], 0.02, betas=(0.8, 0.95), weight_decay=0.1)
    peer.scheduler = torch.optim.lr_scheduler.LambdaLR(peer.optimizer, lambda step: 1)
    peer.train(7)
    torch.save({"model": peer.weights(), "optimizer": peer.optimizer.state_dict(), "step": 7}, f"{folder}/rates.pt")
    run = [GTRAIN, "train", "--resume", f"{folder}/rates.pt", "--out", f"{folder}/rates"]
    wrong = subprocess.run([*run, *map(str, options(folder, "adamw", 17, "--lr-scale", "2.*=2"))], stderr=subprocess.PIPE, text=True)
    yield "groups with other rates than --lr-scale are refused", "" if wrong.returncode == 2 and (
        "its optimizer has the learning rates 0.02 for '0.weight' and 0.06 for '2.weight'\nhint: --lr-scale GLOB=X" in wrong.stderr) else wrong.stderr
    gtrain(*run[1:], *options(folder, "adamw", 17, "--lr-scale", "2.*=3"))
    far = off(curve(f"{folder}/rates"), peer.train(10))
    yield "groups with the rates of --lr-scale go on", "" if far <= 1e-4 else f"apart by {far:.1e}"
    for group, lr in zip(peer.optimizer.param_groups, (0.06, 0.02)):
        group["lr"] = group["initial_lr"] = lr
    peer.scheduler = torch.optim.lr_scheduler.LambdaLR(peer.optimizer, lambda step: 1)
    torch.save({"model": peer.weights(), "optimizer": peer.optimizer.state_dict(), "step": 17}, f"{folder}/first.pt")
    gtrain("train", "--resume", f"{folder}/first.pt", "--out", f"{folder}/first", *options(folder, "adamw", 27, "--lr-scale", "0.*=3"))
    far = off(curve(f"{folder}/first"), peer.train(10))
    lr = json.load(open(f"{folder}/first/config.json"))["lr"]
    yield "the rate of a first group with a factor is divided by it", "" if far <= 1e-4 and abs(lr - 0.02) < 1e-9 else f"apart by {far:.1e}, lr {lr}"


def rates_of_schedule(folder):
    """Values that follow from the learning rate follow from that of parameters without a factor."""
    make_data(folder)
    peer = Peer(folder, "adamw")
    layers = [[p for n, p in peer.net.named_parameters() if n[0] == name] for name in "02"]
    peer.optimizer = torch.optim.AdamW([{"params": params, "lr": lr} for params, lr in zip(layers, (0.6, 0.02))], betas=(0.8, 0.95), weight_decay=0.1)
    peer.train(2)
    torch.save({"model": peer.weights(), "optimizer": peer.optimizer.state_dict(), "step": 2}, f"{folder}/rates.pt")
    out, run = f"{folder}/rates", options(folder, "adamw", 22, "--lr-scale", "0.*=30")
    run[run.index("constant")] = "cosine"
    gtrain("train", "--resume", f"{folder}/rates.pt", "--out", out, *run)
    config, lrs = json.load(open(f"{out}/config.json")), [row["lr"] for row in curve(out)]
    good = abs(config["lr"] - 0.02) < 1e-9 and abs(config["min-lr"] - 0.002) < 1e-9 and all(a > b for a, b in zip(lrs, lrs[1:]))
    yield "the least rate follows from the rate without a factor", "" if good else f"{config['lr']}, {config['min-lr']}, {lrs}"
    run[run.index(22)] = 24
    gtrain("train", "--resume", "auto", "--out", out, *run)
    yield "such a run goes on once more", "" if len(curve(out)) == 22 else f"{len(curve(out))} steps"
    # A file of gtrain without its options is one of another program.
    more = ["--lr-scale", "0.*=30", "--adam-lr", 0.02]
    muon = [*OPTIONS, "--model", MODEL, "--data", f"csv:{folder}/table.csv", "--batch", BATCH, "--optimizer", "muon", *more]
    muon[muon.index("--steps") + 1] = 8
    gtrain("train", *muon, "--lr", 0.02, "--save-every", 4, "--out", f"{folder}/own")
    saved = torch.load(f"{folder}/own/checkpoints/step-00000004.pth")
    del saved["config"]
    torch.save(saved, f"{folder}/muon.pt")
    gtrain("train", *muon, "--resume", f"{folder}/muon.pt", "--out", f"{folder}/muon")
    far = off(curve(f"{folder}/muon"), [row["loss"] for row in curve(f"{folder}/own")[4:]])
    yield "the rate of Muon's AdamW is that of --adam-lr", "" if far <= 1e-6 else f"apart by {far:.1e}"


# ---- parameters with names, which PyTorch saves since 2.6

def equal_layers():
    """Two layers of one shape: no shape tells their parameters apart."""
    return torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.ReLU(), torch.nn.Linear(5, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))


ORDER = ["2.bias", "4.weight", "2.weight", "0.bias", "4.bias", "0.weight"]
#        name, groups of names, their rates, names in the file, names in the state_dict, options of gtrain
NAMED = [
    ("one group", [ORDER], [0.02], "{}", "{}", []),
    ("one group of wrapped names", [ORDER], [0.02], "module._orig_mod.{}", "{}", []),
    ("one group of names with an attribute", [ORDER], [0.02], "model.{}", "module.{}", []),
    ("names for --map", [ORDER], [0.02], "layers/{}", "layers/{}", ["--map", "^layers/="]),
    ("groups in another order", [["4.bias", "4.weight"], ["2.weight", "2.bias", "0.weight", "0.bias"]], [0.06, 0.02], "{}", "{}", ["--lr-scale", "4.*=3"]),
    ("groups that are others", [ORDER[:1], ORDER[1:4], ORDER[4:]], [0.02, 0.02, 0.02], "{}", "{}", []),
    ("frozen parameters", [ORDER], [0.02], "{}", "{}", ["--freeze", "2.*"]),
    ("a first group of frozen parameters without a rate", [["2.bias", "2.weight"], ["4.bias", "4.weight", "0.weight", "0.bias"]], [0, 0.02], "{}", "{}",
     ["--freeze", "2.*"]),
    ("two ranks", [ORDER[:2], ORDER[2:]], [0.02, 0.02], "{}", "{}", ["--nproc", 2, "--batch", BATCH // 2, "--parallel", "zero2"]),
]


def named_peer(folder, groups, rates):
    peer = Peer(folder, "adamw", equal_layers())
    parameters = dict(peer.net.named_parameters())
    peer.optimizer = torch.optim.AdamW([{"params": [parameters[name] for name in group], "lr": lr} for group, lr in zip(groups, rates)],
                                       0.02, betas=(0.8, 0.95), weight_decay=0.1)
    peer.scheduler = torch.optim.lr_scheduler.LambdaLR(peer.optimizer, lambda step: 1)
    peer.train(7)
    return peer


def state_with_names(peer, groups, form="{}"):
    """As torch/optim/optimizer.py, state_dict(), writes it for named parameters."""
    state = peer.optimizer.state_dict()
    for group, names in zip(state["param_groups"], groups):
        group["param_names"] = [form.format(name) for name in names]
    return state


def names(folder):
    make_data(folder)
    for i, (name, groups, rates, form, key, more) in enumerate(NAMED):
        peer = named_peer(folder, groups, rates)
        weights = {key.format(k): v for k, v in peer.weights().items()}
        torch.save({"model": weights, "optimizer": state_with_names(peer, groups, form), "step": 7}, f"{folder}/{i}.pt")
        if "--freeze" in more:
            peer.net[2].requires_grad_(False)
            peer.optimizer.zero_grad(set_to_none=True)
        done = subprocess.run([GTRAIN, "train", "--resume", f"{folder}/{i}.pt", "--out", f"{folder}/{i}",
                               *map(str, options(folder, "adamw", 17, "--model", "mlp:5,5,5,3", *more))], stderr=subprocess.PIPE, text=True)
        far = off(curve(f"{folder}/{i}"), peer.train(10)) if not done.returncode else 1
        yield f"param_names: {name}", "" if far <= 1e-4 else f"apart by {far:.1e}: {done.stderr}"


def wrong_names(folder):
    make_data(folder)
    peer = named_peer(folder, [ORDER], [0.02])
    known = "'4.bias'"
    cases = [
        ("of no parameter", [*ORDER[:-1], "0.wight"], [], "its optimizer has a parameter '0.wight', which the model has not\nhint: --map REGEX=REPLACEMENT"),
        ("twice", [*ORDER[:-1], "4.bias"], [], f"two parameters of its optimizer are {known}"),
        ("twice by --map", [*ORDER[:-1], "0.w"], ["--map", "^0.w$=4.bias"], f"two parameters of its optimizer are {known}"),
        ("too few", ORDER[:-1], [], "group 0 of its optimizer has 6 parameters and 5 'param_names'"),
        ("no text", [*ORDER[:-1], 7], [], "group 0 of its optimizer: 'param_names' is no list of names"),
        ("no list", 7, [], "group 0 of its optimizer: 'param_names' is no list of names"),
    ]
    for name, listed, more, wanted in cases:
        state = peer.optimizer.state_dict()
        state["param_groups"][0]["param_names"] = listed
        yield from refused(folder, f"names {name}", {"model": peer.weights(), "optimizer": state, "step": 7}, more, wanted)
    state = state_with_names(peer, [ORDER])
    state["param_groups"] = [{**state["param_groups"][0], "params": [0, 1, 2], "param_names": ORDER[:3]}]
    yield from refused(folder, "names of some parameters", {"model": peer.weights(), "optimizer": state, "step": 7}, [],
                       "its optimizer has no parameter '0.weight'")
    for bare in range(2):
        state = state_with_names(peer, [ORDER])
        state["param_groups"] = [{**state["param_groups"][0], "params": [0, 1, 2], "param_names": ORDER[:3]},
                                 {**state["param_groups"][0], "params": [3, 4, 5], "param_names": ORDER[3:]}]
        del state["param_groups"][bare]["param_names"]
        yield from refused(folder, f"group {bare} without names", {"model": peer.weights(), "optimizer": state, "step": 7}, [],
                           f"group {bare} of its optimizer has 3 parameters and 0 'param_names'")
    peer = named_peer(folder, [ORDER], [0.02])
    for order, save in ("state_dict", plain), ("model", trainer):
        save(peer, f"{folder}/{order}")
        yield from refused_file(folder, f"another order than the {order}, without names", f"{folder}/{order}", [],
                                "'0.weight' is missing or of another shape\nhint: was it saved with another --optimizer, or are its parameters in another "
                                f"order than the {order}?")
    state = state_with_names(peer, [ORDER])
    del state["state"][0]
    yield from refused(folder, "no state", {"model": peer.weights(), "optimizer": state, "step": 7}, [],
                       "'2.bias' is missing or of another shape\nhint: was it saved with another --optimizer?")


def refused(folder, name, saved, more, wanted):
    torch.save(saved, f"{folder}/bad.pt")
    yield from refused_file(folder, name, f"{folder}/bad.pt", more, wanted)


def refused_file(folder, name, path, more, wanted):
    done = subprocess.run([GTRAIN, "train", "--resume", path, "--out", f"{folder}/no",
                           *map(str, options(folder, "adamw", 17, "--model", "mlp:5,5,5,3", *more))], stderr=subprocess.PIPE, text=True)
    good = done.returncode in (1, 2) and wanted in done.stderr and not os.path.exists(f"{folder}/no")
    yield f"refused: {name}", "" if good else f"status {done.returncode}: {done.stderr}"


def refusals(folder):
    make_data(folder)
    peer = Peer(folder, "sgd")
    peer.train(2)
    adam = torch.optim.AdamW(peer.net.parameters(), 0.02)
    for p in peer.net.parameters():
        p.grad = torch.ones_like(p)
    adam.step()
    adam = adam.state_dict()

    def groups(**other):
        """Adam's state_dict with two groups, the second with other settings."""
        halves = [{**adam["param_groups"][0], "params": params, **more} for params, more in (([0, 1], {}), ([2, 3], other))]
        return {"model": peer.weights(), "optimizer": {"state": adam["state"], "param_groups": halves}, "step": 2}

    def one(**other):
        return {"model": peer.weights(), "step": 2,
                "optimizer": {"state": adam["state"], "param_groups": [{**adam["param_groups"][0], **other}]}}

    unfrozen = {i: {**s, "step": torch.tensor(2.0 if i < 2 else 1.0)} for i, s in adam["state"].items()}
    state = {"model": peer.weights(), "optimizer": peer.optimizer.state_dict(), "step": 2}
    two = torch.optim.SGD([{"params": [p]} for p in peer.net.parameters()], 0.1)
    dampened = torch.optim.SGD(peer.net.parameters(), 0.1, momentum=0.9, dampening=0.5)
    cases = [
        ("no optimizer", {"model": state["model"], "step": 2}, "sgd", "it has no state of an optimizer\nhint: --init-from starts a new run from its weights"),
        ("theirs is sgd", state, "adam", "its optimizer is sgd, not adam\nhint: --optimizer sgd goes on with it"),
        ("theirs is adam", {**state, "optimizer": torch.optim.Adam(peer.net.parameters()).state_dict()}, "sgd", "its optimizer is adamw, not sgd"),
        ("another one", {**state, "optimizer": torch.optim.RMSprop(peer.net.parameters(), momentum=0.5).state_dict()}, "sgd",
         "gtrain does not have its optimizer; the settings in it are: lr, momentum, alpha"),
        ("Adam without states", {**state, "optimizer": torch.optim.Adam(peer.net.parameters()).state_dict()}, "adam",
         "optimizer state 'exp_avg' of '0.weight' is missing"),
        ("amsgrad", {**state, "optimizer": torch.optim.Adam(peer.net.parameters(), amsgrad=True).state_dict()}, "adam", "amsgrad=1, which is not supported"),
        ("dampening", {**state, "optimizer": dampened.state_dict()}, "sgd", "dampening=0.5, which is not supported"),
        ("other groups", {**state, "optimizer": two.state_dict()}, "sgd", "the optimizer's groups hold 1, 1, 1 and 1 parameters"),
        ("frozen here", state, "sgd --freeze 0.weight", "here they are 3\nhint: --freeze keeps 1 parameter out of the groups"),
        ("two optimizers", {"state_dict": state["model"], "optimizer_states": [state["optimizer"]] * 2}, "sgd", "'optimizer_states' has 2 optimizers"),
        ("no torch.optim", {**state, "optimizer": {"lr": 0.1}}, "sgd", "'optimizer' is no state_dict of torch.optim"),
        ("groups of other betas", groups(betas=(0.5, 0.9)), "adamw", "the groups 0 and 1 of its optimizer have different betas"),
        ("groups of other eps", groups(eps=1e-3), "adamw", "the groups 0 and 1 of its optimizer have different eps"),
        ("a second group with amsgrad", groups(amsgrad=True), "adamw", "amsgrad=1, which is not supported"),
        ("groups of two decays", groups(weight_decay=0.5), "adamw",
         "weight decays of 0.01 and 0.5\nhint: --weight-decay X replaces these values by X"),
        ("a rate that is NaN", one(lr=math.nan), "adamw", "its optimizer has lr=nan"),
        ("a rate that is a text", one(lr="0.1"), "adamw", "its optimizer's setting 'lr' is not a number"),
        ("amsgrad of NumPy", one(amsgrad=np.bool_(True)), "adamw", "amsgrad=1, which is not supported"),
        ("a step that is a text", {**state, "step": "2"}, "sgd", "'step' is not a number"),
        ("a negative rate", one(initial_lr=-0.1), "adamw", "its optimizer has initial_lr=-0.1"),
        ("a rate of 0", one(lr=0.0), "adamw", "its optimizer has the learning rate 0\nhint: --lr X sets the highest rate of this run"),
        ("maximize", one(maximize=True), "adamw", "maximize=1, which is not supported"),
        ("Adam with AdamW's decay", one(decoupled_weight_decay=True), "adam", "its optimizer is adamw, not adam"),
        ("betas of 1", one(betas=(0.9, 1.0)), "adamw", "its optimizer has betas=1, which is not below 1"),
        ("three betas", one(betas=(0.9, 0.99, 0.999)), "adamw", "its optimizer's setting 'betas' is not a pair of numbers"),
        *[(f"{key} of {value:g}", {"model": peer.weights(), "step": 2, "optimizer": {**adam, "state": {
            i: {**s, **({key: s[key].clone().flatten().index_fill(0, torch.tensor([1]), value).view_as(s[key])} if i == 1 else {})}
            for i, s in adam["state"].items()}}}, "adamw", f"optimizer state '{key}' of '0.bias' holds {value:g}, which is not from")
          for key, value in (("exp_avg_sq", -0.5), ("exp_avg_sq", -1e-12), ("exp_avg", 3e38), ("exp_avg", -1e30))],
        ("a negative decay", one(weight_decay=-0.1), "adamw", "its optimizer has weight_decay=-0.1"),
        ("an eps that is NaN", one(eps=math.nan), "adamw", "its optimizer has eps=nan"),
        ("a momentum that is NaN", {**state, "optimizer": {**state["optimizer"], "param_groups": [{**g, "momentum": math.nan}
         for g in state["optimizer"]["param_groups"]]}}, "sgd", "its optimizer has momentum=nan"),
        ("layers unfrozen later", {"model": peer.weights(), "step": 2, "optimizer": {"state": unfrozen, "param_groups": adam["param_groups"]}},
         "adamw", "its optimizer has counted 2 steps for some parameters, 1 for parameter 2"),
        ("no decay", one(weight_decay=0), "adamw --weight-decay 0.1", "its optimizer has no weight decay for '0.weight', which has some in this run"),
        ("a step below 0", {**state, "step": -2}, "sgd", "'step' is -2"),
        ("another model", {**state, "model": {"0.weight": torch.zeros(5, 5)}}, "sgd", "tensor '0.weight' has shape [5, 5], the model wants [7, 5]"),
        ("NaN", {**state, "model": {**state["model"], "0.bias": torch.full((7,), math.nan)}}, "sgd", "tensor '0.bias' holds nan"),
    ]
    for name, saved, kind, wanted in cases:
        torch.save(saved, f"{folder}/bad.pt")
        args = [GTRAIN, "train", "--resume", f"{folder}/bad.pt", "--out", f"{folder}/no", *map(str, options(folder, kind.split()[0], 20)), *kind.split()[1:]]
        said = os.popen(" ".join(args) + " 2>&1").read()
        problem = "" if wanted in said and said.count(f"{folder}/bad.pt") == 1 and not os.path.exists(f"{folder}/no") else said
        yield f"refused: {name}", problem


# ---- the other way round

class Gpt(models.GPT):
    def __init__(self, layers, heads, width, block, vocab):
        super().__init__(layers, heads, width, block, vocab)
        self.lm_head = torch.nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight


class Tensors:
    def __init__(self, state_dict):
        self.tensors = list(state_dict.values())

    def parameters(self):
        return self.tensors


def groups_of_readme(folder, line):
    """The README's line makes the groups of gtrain for each kind of model that has two."""
    for model in ("llama:layers=1,heads=2,width=16,block=8,vocab=7", "vit:layers=1,heads=2,width=16,image=8,patch=4,classes=3"):
        name = model.split(":")[0]
        gtrain("train", "--model", model, "--data", "random", "--batch", 2, "--optimizer", "adamw", "--steps", 1, "-q", "--out", f"{folder}/{name}")
        saved = torch.load(next(Path(folder, name, "checkpoints").glob("step-*.pth")))
        scope = {"model": Tensors(saved["model"])}
        exec(line, scope)  # noqa: S102
        shapes = [[list(p.shape) for p in group] for group in scope["groups"]]
        state = saved["optimizer"]["state"]
        wanted = [[list(state[i]["exp_avg"].shape) for i in group["params"]] for group in saved["optimizer"]["param_groups"]]
        yield f"the README's groups of {name} are gtrain's", "" if shapes == wanted else f"{shapes}, not {wanted}"


def train_text(model, optimizer, x, y, steps):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# Groups of a model as other programs make them: for each, whether it takes a parameter, and its weight decay.
GPT_GROUPS = {
    "one group, biases and norms decay": [(lambda n, p: True, 0.3)],
    "no decay first, as timm": [(lambda n, p: p.ndim < 2, 0), (lambda n, p: p.ndim > 1, 0.3)],
    "embeddings without decay": [(lambda n, p: p.ndim > 1 and "e.weight" not in n, 0.3), (lambda n, p: p.ndim < 2 or "e.weight" in n, 0)],
    "a group for each kind": [(lambda n, p: p.ndim < 2, 0), (lambda n, p: p.ndim > 1 and "mlp" in n, 0.3), (lambda n, p: p.ndim > 1 and "mlp" not in n, 0.3)],
}


def groups_of_gpt(folder, model, optimizer, x, y, step):
    """Whichever groups a program made, each parameter goes on with its state and its weight decay."""
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    state = {id(p): {key: value.clone() for key, value in s.items()} for p, s in optimizer.state.items()}
    args = ["--model", "gpt:layers=2,heads=2,width=16,block=16", "--data", f"text:{folder}/text.txt", "--batch", len(x), *COMMON[2:]]
    for name, kinds in GPT_GROUPS.items():
        model.load_state_dict(weights)
        groups = [{"params": [p for n, p in model.named_parameters() if takes(n, p)], "weight_decay": decay} for takes, decay in kinds]
        theirs = torch.optim.AdamW(groups, lr=0.002, betas=(0.9, 0.95), eps=1e-6)
        for p in model.parameters():
            theirs.state[p] = {key: value.clone() for key, value in state[id(p)].items()}
        torch.save({"model": model.state_dict(), "optimizer": theirs.state_dict(), "global_step": step}, f"{folder}/groups.pt")
        losses = train_text(model, theirs, x, y, 8)
        gtrain("train", *args, "--steps", step + 4, "--resume", f"{folder}/groups.pt", "--out", f"{folder}/{name}")
        # gtrain's own checkpoint knows them, too; on two ranks, one step has the same samples.
        gtrain("train", "--resume", f"{folder}/{name}", "--steps", step + 8, "--nproc", 2, "--batch", len(x) // 2, "--parallel", "zero1", "-q")
        far = off(curve(f"{folder}/{name}"), losses)
        yield f"groups of a GPT: {name}", "" if far <= 1e-5 else f"apart by {far:.1e}"
    model.load_state_dict(weights)
    for p in model.parameters():
        optimizer.state[p] = state[id(p)]


def to_torch(folder):
    """PyTorch goes on from gtrain's checkpoint as the README says, with two groups of parameters."""
    # Windows of 16 characters begin at another place in each epoch: with a period of 15 they are always the same ones.
    text = "the quick fox, " * 64 + "t"
    samples, block, half = (len(text) - 1) // 16, 16, 10
    with open(f"{folder}/text.txt", "w") as f:
        f.write(text)
    gtrain("train", "--model", f"gpt:layers=2,heads=2,width=16,block={block}", "--data", f"text:{folder}/text.txt", "--batch", samples,
           "--optimizer", "adamw", "--lr", "0.002", "--weight-decay", "0.3", "--save-every", half, *[*COMMON[2:]], "--steps", 2 * half,
           "--out", f"{folder}/runs/gpl")
    with open(f"{folder}/runs/gpl/vocab.json") as f:
        number = {token: i for i, token in enumerate(json.load(f)["tokens"])}
    vocab = len(number)
    ids = torch.tensor([number[c] for c in text])
    x, y = ids[:-1].view(samples, block), ids[1:].view(samples, block)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "README.md")) as f:
        example = re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)
    yield from groups_of_readme(folder, re.search(r"^groups = .*$", example, re.M).group())
    scope = {"torch": torch, "model": Gpt(2, 2, 16, block, vocab)}
    exec(example.replace("runs/gpl", f"{folder}/runs/gpl").replace("step-00000400", f"step-{half:08}"), scope)  # noqa: S102
    model, optimizer = scope["model"], scope["optimizer"]
    losses = train_text(model, optimizer, x, y, half)
    far = off(curve(f"{folder}/runs/gpl")[half:], losses)
    decays = [group["weight_decay"] for group in optimizer.param_groups]
    yield "PyTorch goes on with gtrain's curve, by the README", "" if far <= 1e-4 and decays == [0.3, 0] else f"apart by {far:.1e}, {decays}"
    yield from groups_of_gpt(folder, model, optimizer, x, y, 2 * half)
    optimizer = scope["optimizer"]

    # And back: the file that PyTorch saves has two groups, as transformers' Trainer makes them.
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "global_step": 2 * half}, f"{folder}/back.pt")
    gtrain("train", "--model", f"gpt:layers=2,heads=2,width=16,block={block}", "--data", f"text:{folder}/text.txt", "--batch", samples,
           *COMMON[2:], "--steps", 3 * half, "--resume", f"{folder}/back.pt", "--out", f"{folder}/back")
    far = off(curve(f"{folder}/back"), train_text(model, optimizer, x, y, half))
    yield "and gtrain with PyTorch's, two groups of parameters", "" if far <= 1e-4 else f"apart by {far:.1e}"


sys.exit(run([goes_on, without_a_step, renamed, another_order, groups, ambiguous_groups, settings, rates, rates_of_schedule, names, wrong_names, refusals, to_torch], GTRAIN, sys.argv[1:]))
