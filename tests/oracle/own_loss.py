#!/usr/bin/env python3
"""own_loss.py - networks of torch.export.save() that return their loss, beside PyTorch: --loss output on ranks and in all modes (TAP)."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import GTRAIN, apart, curve, distance, gtrain, np, torch  # noqa: E402: skips a python without torch
import exported  # noqa: E402
import mixup  # noqa: E402
import models  # noqa: E402
import tap  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

SAMPLES, INPUTS, CLASSES, EPOCHS, BOUND = mixup.SAMPLES, 6, 5, 3, 1e-5
COMMON = [*mixup.COMMON, *mixup.SGD, "--lr", 0.05, "--epochs", EPOCHS]


# ---- networks ----

class Classifier(nn.Module):
    """Returns its scores, too."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.last = nn.Linear(INPUTS, 12), nn.Linear(12, 8), nn.Linear(8, CLASSES)

    def score(self, x):
        return self.last(torch.tanh(self.down(torch.tanh(self.up(x)))))

    def forward(self, x, y):
        scores = self.score(x)
        return scores, F.cross_entropy(scores, y, label_smoothing=0.1)


class Named(Classifier):
    """The loss has a name, and is not the only number. A tuple before it is empty."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor([0.5, 3, 1, 0.25, 2.25]))

    def forward(self, x, labels):
        scores = self.score(x)
        likelihood = F.nll_loss(torch.log_softmax(scores, 1), labels, weight=self.weight)
        return {"nothing": (), "first": torch.mean(scores, [0, 1]), "loss": likelihood + F.cross_entropy(scores, labels, weight=self.weight, ignore_index=2)}


class Numbers(nn.Module):
    """Targets in a column."""

    def __init__(self):
        super().__init__()
        self.up, self.last = nn.Linear(INPUTS, 16), nn.Linear(16, 1)

    def forward(self, x, y):
        return F.mse_loss(self.last(torch.tanh(self.up(x))), y)


class Auto(nn.Module):
    """An autoencoder, which takes no target."""

    def __init__(self):
        super().__init__()
        self.up, self.middle, self.last = nn.Linear(INPUTS, 8), nn.Linear(8, 3), nn.Linear(3, INPUTS)

    def forward(self, x):
        return F.smooth_l1_loss(self.last(torch.tanh(self.middle(torch.tanh(self.up(x))))), x, beta=0.5)


class Every(Classifier):
    """All losses, all of their arguments; targets that depend on weights have gradients, too."""

    def __init__(self):
        super().__init__()
        self.own = nn.Linear(INPUTS, CLASSES)
        self.register_buffer("far", torch.tensor([0.0, 200, 0, -200, 0]))  # probabilities of 1 and 0
        self.register_buffer("weight", torch.tensor([0.5, 3, 1, 0.25, 2.25]))

    def forward(self, x, y):
        scores = self.score(x)
        log, own = torch.log_softmax(scores, 1), self.own(x)
        share, pixels = torch.sigmoid(own), torch.stack([scores, scores * 2 - 1], 2)
        per_class = F.cross_entropy(scores, y, weight=self.weight, ignore_index=3, reduction="none")
        return (F.mse_loss(scores, own) + F.l1_loss(scores, own) + F.huber_loss(scores, own, delta=0.3) + F.smooth_l1_loss(scores, own)
                + F.mse_loss(scores, own, reduction="sum") / 40 + torch.mean(F.l1_loss(scores, own, reduction="none"), [0, 1])
                + F.binary_cross_entropy(torch.sigmoid(scores), share) + F.binary_cross_entropy(torch.sigmoid(scores), share, weight=self.weight)
                + F.binary_cross_entropy(torch.sigmoid(scores + self.far), torch.sigmoid(exported.rest(x, 1, 1))) / 50
                + F.binary_cross_entropy_with_logits(scores, share, weight=self.weight, pos_weight=self.weight)
                + F.binary_cross_entropy_with_logits(scores, share) + F.kl_div(log, share, reduction="sum") / 8
                + F.kl_div(log, torch.log_softmax(own, 1), reduction="sum", log_target=True) / 8
                + torch.sum(per_class, [0]) / 8 + F.cross_entropy(scores, y, weight=self.weight, reduction="sum", label_smoothing=0.2) / 8
                + F.cross_entropy(scores, y, reduction="sum", ignore_index=1) / 8 + F.cross_entropy(scores, torch.softmax(own, 1), label_smoothing=0.1)
                + F.cross_entropy(scores, share, weight=self.weight) + F.nll_loss(log, y, ignore_index=0) + F.nll_loss(log, y, reduction="sum") / 8
                + F.cross_entropy(pixels, torch.stack([y, y], 1), label_smoothing=0.1))


class Text(nn.Module):
    """A table of bigrams. The targets are the next tokens."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 7)

    def compare(self, ids, labels):
        return F.cross_entropy(torch.reshape(self.table(ids), [-1, 7]), torch.reshape(labels, [-1]))

    def forward(self, ids, targets):
        return self.compare(ids, targets)


class Shifting(Text):
    """The labels are the tokens of the text, as in Hugging Face's models."""

    def forward(self, ids, labels):
        return self.compare(ids, exported.rest(F.pad(labels, [0, 1], value=-100), 1, 1))


class Alone(Text):
    def forward(self, ids):
        return self.compare(ids, exported.rest(F.pad(ids, [0, 1], value=-100), 1, 1))


# ---- data ----

def make_data(folder):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(SAMPLES, INPUTS)).astype(np.float32)
    y, numbers = rng.integers(0, CLASSES, SAMPLES), rng.normal(size=SAMPLES).astype(np.float32)
    y[0] = CLASSES - 1
    np.savez(f"{folder}/table.npz", x=x, y=y.astype(np.int32))
    np.savetxt(f"{folder}/numbers.csv", np.hstack([x, numbers[:, None]]).astype(float), delimiter=",", fmt="%.9g")
    return torch.from_numpy(x), torch.from_numpy(y).long(), torch.from_numpy(numbers)[:, None]


# name: the network; the data; which targets they have for it
NETWORKS = {
    "classes": (Classifier, "npz:{}/table.npz", "y"),
    "named": (Named, "npz:{}/table.npz", "y"),
    "every": (Every, "npz:{}/table.npz", "y"),
    "numbers": (Numbers, "csv:{}/numbers.csv,standardise=no", "numbers"),
    "auto": (Auto, "npz:{}/table.npz", None),
}


class Case:
    """A network in a file, and the tensors that it is given."""

    def __init__(self, folder, name):
        module, data, target = NETWORKS[name]
        x, y, numbers = make_data(folder)
        targets = {"y": [y], "numbers": [numbers], None: []}[target]
        torch.manual_seed(1)
        self.module, self.given, self.folder, self.data = module().train(), [x, *targets], folder, data.format(folder)
        self.path = f"{folder}/net.pt2"
        exported.save(self.module, tuple(t[:3] for t in self.given) if targets else x[:3], self.path)

    def loss(self, rows):
        returned = self.module(*(t[rows] for t in self.given))
        return returned["loss"] if isinstance(returned, dict) else returned[1] if isinstance(returned, tuple) else returned

    def reference(self, world, batch, accumulate):
        """A step has the mean of its micro-batches and ranks, each counted by its samples."""
        opt, losses = torch.optim.SGD(self.module.parameters(), lr=0.05, momentum=0.9), []
        for epoch in range(EPOCHS):
            read = [mixup.batches(world, rank, batch, epoch) for rank in range(world)]
            for first in range(0, len(read[0]), accumulate):
                parts = [read[rank][i] for i in range(first, min(first + accumulate, len(read[0]))) for rank in range(world)]
                total = sum(map(len, parts))
                loss = sum(self.loss(rows) * (len(rows) / total) for rows in parts)
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append({"loss": float(loss)})
        return losses

    def train(self, out, *options):
        gtrain("train", "--model", self.path, "--data", self.data, "--out", f"{self.folder}/{out}", *COMMON, *options)
        return f"{self.folder}/{out}"


def check(case, out, want, bound=BOUND):
    far, weights = apart(curve(out), want), torch.load(f"{out}/model.pth")
    worst = models.farthest(weights, case.module.state_dict())[0]
    assert len(curve(out)) == len(want) and far <= bound and worst <= 100 * bound, (out, len(curve(out)), len(want), far, worst)
    case.module.load_state_dict(weights, strict=True)


# ---- training ----

@tap.cases(NETWORKS)
def beside(folder, name):
    """PyTorch's curve and weights, with a short last batch; the weights fit the module. Then eval, and convert."""
    case = Case(folder, name)
    out = case.train("run", "--loss", "output", "--batch", 8)
    check(case, out, case.reference(1, 8, 1))
    right = float(case.loss(list(range(SAMPLES))))
    assert not {"top1", "mse", "perplexity"} & set(curve(case.train("val", "--batch", 8, "--val", case.data), "val")[0])
    assert "the network returns its loss" in gtrain("ckpt", "convert", out, "-o", f"{folder}/net.onnx", status=1)
    gtrain("ckpt", "convert", out, "-o", f"{folder}/trained.pt2")
    for ckpt in ([out], [f"{folder}/trained.pt2", "--model", f"{folder}/trained.pt2"]):
        done = subprocess.run([GTRAIN, "eval", "--ckpt", *ckpt, "--data", case.data, "--batch", "64", "--json", "-q"], capture_output=True, text=True, timeout=60)
        got = json.loads(done.stdout or "{}")
        assert set(got) == {"loss", "n"} and got["n"] == SAMPLES and abs(got["loss"] / right - 1) <= BOUND, (done.stderr, got, right)


# ranks, options; ranks that read, batch of each of them, micro-batches
MODES = [
    (1, ["--batch", 5, "--accumulate", 2], 1, 5, 2), (2, ["--batch", 5, "--accumulate", 2], 2, 5, 2), (2, ["--batch", 4, "--parallel", "mirrored"], 2, 4, 1),
    (2, ["--batch", 4, "--parallel", "zero3", "--recompute"], 2, 4, 1), (2, ["--batch", 8, "--pipeline-parallel", 2, "--chunks", 1], 1, 8, 1),
]


@tap.cases(["classes", "auto"])
def modes(folder, name):
    for i, (ranks, options, world, batch, accumulate) in enumerate(MODES):
        case = Case(folder, name)
        out = case.train(i, "--nproc", ranks, *options)
        check(case, out, case.reference(world, batch, accumulate))


@tap.cases(["classes", "auto"])
def weights_on_one_rank(folder, name):
    """Mode dp: each rank computes the loss of its own part of rank 0's samples, as torch.chunk() divides them."""
    case = Case(folder, name)
    out, whole = case.train("dp", "--nproc", 2, "--batch", 5, "--parallel", "dp"), mixup.batches
    try:
        mixup.batches = lambda world, rank, batch, epoch: [b.tolist() for rows in whole(1, 0, 10, epoch) for b in torch.tensor(rows).chunk(2)]
        check(case, out, case.reference(1, 10, 2))
    finally:
        mixup.batches = whole


@tap.cases(["classes", "auto"])
def bits(folder, name):
    """Reproducible runs have the bits of one rank. bfloat16 follows float32."""
    case = Case(folder, name)
    one, two = (case.train(f"same{k}", "--reproducible", "--nproc", k, "--batch", 8 // k, *more) for k, more in ((1, []), (2, ["--parallel", "zero2"])))
    assert apart(curve(one), curve(two)) == 0 and distance(torch.load(f"{one}/model.pth"), torch.load(f"{two}/model.pth")) == 0
    half, full = (case.train(k, "--batch", 8, "--amp", k) for k in ("bf16", "off"))
    assert 0 < apart(curve(half), curve(full)) <= 0.02


@tap.cases([""])
def texts(folder, _):
    """A network that shifts its labels is given the tokens of the text; the last one of a sample then has no target."""
    ids = np.random.default_rng(2).integers(0, 7, 5 * 8 + 1)
    ids.astype(np.uint16).tofile(f"{folder}/ids.bin")
    rows, losses = torch.from_numpy(ids[:-1]).reshape(5, 8), {}
    for module in (Text, Shifting, Alone):
        torch.manual_seed(1)
        net = module().train()
        with torch.no_grad():
            right = float(net(rows) if module is Alone else net(rows, rows if module is Shifting else torch.from_numpy(ids[1:]).reshape(5, 8)))
        exported.save(net, rows[:2] if module is Alone else (rows[:2], rows[2:4]), f"{folder}/net.pt2")
        out = f"{folder}/{module.__name__}"
        gtrain("train", "--model", f"{folder}/net.pt2", "--data", f"tokens:{folder}/ids.bin,vocab=7", "--val", f"tokens:{folder}/ids.bin,vocab=7", "--batch", 5, "--steps", 1,
               "--lr", 1e-9, "--out", out, "-q")
        losses[module] = [row["loss"] for row in curve(out, "val")][-1]
        assert abs(losses[module] / right - 1) <= BOUND, (module, losses[module], right)
    assert losses[Shifting] == losses[Alone] != losses[Text], losses


# ---- lines ----

def twice(document):
    """One tensor for both inputs at the export: all nodes read the second one."""
    for node in document["graph_module"]["graph"]["nodes"]:
        for given in node["inputs"]:
            if given["arg"].get("as_tensor", {}).get("name") == "x":
                given["arg"]["as_tensor"]["name"] = "y"


def several(document):
    document["graph_module"]["module_call_graph"][0]["signature"] = None
    specs = document["graph_module"]["signature"]["output_specs"]
    specs.append(specs[1])


def scores_as_loss(document):
    """The file says that the scores are one number."""
    name = document["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"]
    document["graph_module"]["graph"]["tensor_values"][name]["sizes"] = []


TRAIN = ["train", "--model", "{f}/net.pt2", "--data", "npz:{f}/table.npz", "--steps", "1", "-q"]
# name: change of the file; words; status; what is said
LINES = {
    "scores": (None, [*TRAIN, "--loss", "cross-entropy"], 2, "'net.pt2' returns its loss, which is no score"),
    "built-in": (None, ["train", "--model", "mlp", "--data", "npz:{f}/table.npz", "--loss", "output"], 2, "--loss output: model 'mlp' computes no loss"),
    "class weights": (None, [*TRAIN, "--class-weights", "balanced"], 2, "--class-weights cannot be combined with --loss output"),
    "settings": (None, [*TRAIN, "--loss", "output:delta=1"], 2, "'output' has no setting 'delta'"),
    "numbers": (None, [*TRAIN[:4], "csv:{f}/numbers.csv", "-q"], 2, "'net.pt2' takes whole numbers as its target 'y'"),
    "one tensor twice": (twice, TRAIN, 1, "'net.pt2' does not read its input 'x'"),
    "no number": (scores_as_loss, TRAIN, 1, "error: 'net.pt2': the file says that the loss 'linear_2' is one number, but it is float32 ["),
    "a class that the network lacks": (None, [*TRAIN[:4], "random:6/9", "--steps", "1", "-q"], 1, "error: cross_entropy: target "),
    "several numbers": (several, [*TRAIN, "--loss", "output"], 2, "returns no loss"),
    "a dry run": (None, [*TRAIN, "--dry-run"], 0, ""),
    "predict": (None, ["predict", "--ckpt", "{f}/net.pt2", "--model", "{f}/net.pt2", "{f}/numbers.csv"], 2, "returns its loss, not scores"),
    "classes": (None, ["eval", "--ckpt", "{f}/net.pt2", "--model", "{f}/net.pt2", "--data", "npz:{f}/table.npz", "--per-class"], 2, "returns its loss, not scores"),
    "onnx": (None, ["ckpt", "convert", "{f}/net.pt2", "-o", "{f}/net.onnx"], 1, "the network returns its loss"),
}


@tap.cases(LINES)
def lines(folder, name):
    change, words, status, said = LINES[name]
    case = Case(folder, "classes")
    if change:
        exported.save(case.module, tuple(t[:3] for t in case.given), case.path, change=change)
    done = subprocess.run([GTRAIN, *(w.format(f=folder) for w in words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == status and said in done.stderr and done.stderr.count("error:") == (status != 0), (done.returncode, done.stderr)


if __name__ == "__main__":
    sys.exit(tap.run([*tap.parts], GTRAIN, sys.argv[1:]))
