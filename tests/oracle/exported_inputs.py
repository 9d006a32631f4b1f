#!/usr/bin/env python3
"""exported_inputs.py - exported networks that take several inputs, from arrays, tables and texts, beside PyTorch (TAP)."""
import csv
import io
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import exported  # noqa: E402
import tap  # noqa: E402
from onnx_model import Model  # noqa: E402
from training import GTRAIN, apart, curve, distance, gtrain, np, torch  # noqa: E402
import mixup  # noqa: E402

nn, F, SAMPLES, BOUND, T = torch.nn, torch.nn.functional, mixup.SAMPLES, 1e-5, 8
COMMON = [*mixup.COMMON, *mixup.SGD, "--lr", 0.05]


# ---- networks ----

class Text(nn.Module):
    """A classifier of padded texts, as transformers has them."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.types, self.norm = nn.Embedding(20, 16), nn.Embedding(T, 16), nn.Embedding(2, 16), nn.LayerNorm(16)
        self.query, self.key, self.value, self.out, self.fc = *(nn.Linear(16, 16) for _ in range(4)), nn.Linear(16, 3)

    def heads(self, x):
        return torch.permute(torch.reshape(x, [-1, T, 2, 8]), [0, 2, 1, 3])

    def forward(self, input_ids, attention_mask, token_type_ids, position_ids):
        x = self.norm(self.words(input_ids) + self.types(token_type_ids) + self.places(position_ids))
        seen = torch.unsqueeze(torch.unsqueeze(torch.ne(attention_mask, 0), 1), 1)
        y = exported.attention(self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x)), seen)
        x = x + self.out(torch.reshape(torch.permute(y, [0, 2, 1, 3]), [-1, T, 16]))
        kept = torch.unsqueeze(attention_mask, -1)
        return self.fc(torch.sum(x * kept, [1], False) / torch.sum(kept, [1], False))


class Table(nn.Module):
    """Numbers, a category of one value for each sample, and one of a row."""

    def __init__(self):
        super().__init__()
        self.city, self.size, self.fc1, self.fc2 = nn.Embedding(4, 5), nn.Embedding(6, 3), nn.Linear(3 + 5 + 3, 16), nn.Linear(16, 3)

    def forward(self, numbers, city, size):
        x = torch.cat([numbers, self.city(city), torch.flatten(self.size(size), 1)], 1)
        return self.fc2(torch.tanh(self.fc1(x)))


class Scan(nn.Module):
    """An image and numbers beside it, with a truth value for each."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(36 + 2, 3)

    def forward(self, image, facts, known):
        facts = torch.where(known, facts, torch.tanh(facts)) * torch.where(known, 0.5, 2.0)
        return self.fc(torch.cat([torch.flatten(torch.relu(self.conv(image)), 1), facts], 1))


class Bag(nn.Module):
    """A classifier of texts of any length, with means whose factors follow from the length and the batch."""

    def __init__(self):
        super().__init__()
        self.words, self.fc = nn.Embedding(20, 16), nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask):
        kept = torch.unsqueeze(attention_mask, -1)
        x = self.words(input_ids)
        y = torch.tanh(torch.sum(x * kept, [1], False) / torch.sum(kept, [1], False)) + torch.mean(x, [1])
        return self.fc(y - torch.mean(y, [0], True))


class Indexed(Bag):
    """The same with the mask looked up by indices of samples and of tokens, as transformers makes masks of attention."""

    def forward(self, input_ids, attention_mask):
        samples = torch.unsqueeze(exported.arange_along(input_ids, 0), -1)
        return super().forward(input_ids, attention_mask[samples, exported.arange_along(input_ids, 1)])


class Writer(nn.Module):
    """A language model; `several`: with the inputs that transformers gives."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.fc = nn.Embedding(30, 12), nn.Embedding(T, 12), nn.Linear(12, 30)

    def result(self, x):
        return self.fc(torch.tanh(torch.roll(x, [1], [1]) + x))


class WriterOfFour(Writer):
    def forward(self, input_ids, attention_mask, token_type_ids, position_ids):
        x = self.words(input_ids) + self.places(position_ids)
        return self.result(x * torch.unsqueeze(attention_mask, -1) + torch.unsqueeze(token_type_ids, -1))


class WriterOfOne(Writer):
    def __init__(self):
        super().__init__()
        self.register_buffer("at", torch.arange(T)[None])

    def forward(self, input_ids):
        return self.result(self.words(input_ids) + self.places(self.at))


# ---- data ----

def texts(folder):
    rng = np.random.default_rng(3)
    mask = (np.arange(T) < rng.integers(2, T + 1, SAMPLES)[:, None]).astype(np.int64)
    ids, y = rng.integers(1, 20, (SAMPLES, T)) * mask, rng.integers(0, 3, SAMPLES)
    types = (rng.random((SAMPLES, T)) > 0.5).astype(np.int32)
    np.savez(f"{folder}/data.npz", input_ids=ids, attention_mask=mask.astype(bool), token_type_ids=types, y=y)
    return (ids, mask, types, np.tile(np.arange(T), (SAMPLES, 1))), y


CITIES = ["Oslo", "Bern", "Rome", "Kyiv"]


def table(folder):
    rng = np.random.default_rng(4)
    x, city, size, y = rng.normal(size=(SAMPLES, 3)) * [1, 20, 0.1] + 5, rng.integers(0, 4, SAMPLES), rng.integers(0, 6, SAMPLES), rng.integers(0, 3, SAMPLES)
    with open(f"{folder}/data.csv", "w", newline="") as f:
        rows = [[x[i, 0], CITIES[city[i]], x[i, 1], size[i], x[i, 2], "abc"[y[i]]] for i in range(SAMPLES)]
        csv.writer(f).writerows([["u", "city", "v", "size", "w", "class"], *rows])
    number = np.array([sorted(CITIES).index(name) for name in CITIES])
    return (((x - x.mean(0)) / x.std(0)).astype(np.float32), number[city], size[:, None]), y


def scans(folder):
    rng = np.random.default_rng(5)
    images, facts, y = rng.integers(0, 256, (SAMPLES, 5, 5)).astype(np.uint8), rng.normal(size=(SAMPLES, 2)), rng.integers(0, 3, SAMPLES)
    known = rng.random((SAMPLES, 2)) > 0.5
    np.savez(f"{folder}/data.npz", x=images, facts=facts, known=known, y=y)
    return ((images[:, None] / 255 - 0.5).astype(np.float32) / np.float32(0.25), facts.astype(np.float32), known), y


KINDS = {"text": (Text, texts, "npz:{}/data.npz"), "table": (Table, table, "csv:{}/data.csv,input.city=city,input.size=size"),
         "scan": (Scan, scans, "npz:{}/data.npz,mean=0.5,std=0.25")}


def make(folder, kind):
    network, write, data = KINDS[kind]
    arrays, y = write(folder)
    torch.manual_seed(2)
    net, inputs = network(), tuple(map(torch.from_numpy, arrays))
    inputs = tuple(x.long() if x.dtype == torch.int32 else x for x in inputs)
    exported.save(net, tuple(x[:2] for x in inputs), f"{folder}/net.pt2")
    return net, inputs, torch.from_numpy(y), data.format(folder)


# ---- training ----

#        ranks, batch of each, micro-batches, options; ranks that read, batch of each of them
MODES = {"text": [(1, 8, 1, [], 1, 8), (2, 4, 2, [], 2, 4), (2, 4, 1, ["--parallel", "dp"], 1, 8), (2, 4, 1, ["--parallel", "mirrored"], 2, 4),
                  (2, 4, 1, ["--parallel", "zero3"], 2, 4), (2, 8, 1, ["--tensor-parallel", 2], 1, 8), (2, 8, 1, ["--pipeline-parallel", 2], 1, 8)],
         "table": [(1, 8, 1, [], 1, 8), (2, 4, 2, [], 2, 4), (2, 8, 1, ["--pipeline-parallel", 2], 1, 8)],
         "scan": [(1, 8, 1, [], 1, 8), (2, 4, 1, ["--parallel", "dp"], 1, 8)]}


def reference(net, inputs, y, world, batch, accumulate, epochs=2):
    opt, losses = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), []
    for epoch in range(epochs):
        read = [mixup.batches(world, rank, batch, epoch) for rank in range(world)]
        for first in range(0, len(read[0]), accumulate):
            rows = [k for i in range(first, min(first + accumulate, len(read[0]))) for rank in range(world) for k in read[rank][i]]
            loss = F.cross_entropy(net(*(x[rows] for x in inputs)), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append({"loss": float(loss)})
    return losses


def train(folder, data, out, *more):
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", data, "--epochs", 2, "--out", f"{folder}/{out}", *COMMON, *more)
    return f"{folder}/{out}"


def beside(folder):
    for kind, modes in MODES.items():
        for ranks, batch, accumulate, more, readers, read in modes:
            net, inputs, y, data = make(folder, kind)
            want = reference(net, inputs, y, readers, read, accumulate)
            out = train(folder, data, "-".join(map(str, [kind, ranks, accumulate, *more])), "--nproc", ranks, "--batch", batch, "--accumulate", accumulate, *more)
            got = curve(out)
            far, bad = apart(got, want), distance(torch.load(f"{out}/model.pth"), dict(net.state_dict()))
            problem = f"{len(got)} steps, not {len(want)}" if len(got) != len(want) else ""
            yield f"{kind}, {ranks} ranks, {accumulate} micro-batches {more}", problem or ("" if far <= BOUND else f"losses {far:.1e}, weights {bad:.1e}")


def reproducible(folder):
    _, _, _, data = make(folder, "text")
    runs = [train(folder, data, f"r{n}", "--nproc", n, "--batch", 8 // n, "--reproducible") for n in (1, 2)]
    yield "--reproducible: two ranks have the bits of one", mixup.same(*runs)


def resumed(folder):
    _, _, _, data = make(folder, "table")
    whole, half = (train(folder, data, name, "--batch", 8, "--save-every", 4) for name in ("whole", "half"))
    for name in sorted(os.listdir(f"{half}/checkpoints"))[1:]:
        os.remove(f"{half}/checkpoints/{name}")
    gtrain("train", "--resume", "auto", "--out", half, "-q")
    far = distance(torch.load(f"{whole}/model.pth"), torch.load(f"{half}/model.pth"))
    yield "a resumed run has the bits of one that was not interrupted", "" if far == 0 else f"weights are apart by {far:.1e}"


# ---- what a run is used for ----

def told(*args):
    return subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True, check=True).stdout


def write_row(path, count):
    np.savetxt(path, np.ones((1, count)), delimiter=",")
    return path


@tap.cases(KINDS)
def used(folder, kind):
    """eval, predict, and files for other programs, all with the weights of the run."""
    net, inputs, y, data = make(folder, kind)
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", data, "--epochs", 2, "--out", f"{folder}/run", "--batch", 8, *(word for word in COMMON if word != "-q"))
    assert f"next: gtrain {'eval' if kind == 'scan' else 'predict'} --ckpt" in said, said
    run = f"{folder}/run"
    net.load_state_dict(torch.load(f"{run}/model.pth"), strict=True)
    with torch.no_grad():
        scores = net(*inputs)
    plain = data.split(",")[0]
    if kind == "table":
        assert "column 'size' was for another input in the training" in gtrain("eval", "--ckpt", run, "--data", f"{plain},input.city=size", status=2)
    got = json.loads(told("eval", "--ckpt", run, "--data", plain, "--json", "-q"))
    assert abs(got["loss"] - float(F.cross_entropy(scores, y))) < 1e-5 * got["loss"], got
    gtrain("ckpt", "convert", run, "-o", f"{folder}/out.pt2")
    assert distance(exported.load(f"{folder}/out.pt2"), dict(net.state_dict())) == 0
    if kind != "table":  # the file does not say how columns are scaled
        again = json.loads(told("eval", "--model", f"{folder}/out.pt2", "--ckpt", f"{folder}/out.pt2", "--data", data, "--json", "-q"))
        assert abs(again["loss"] - got["loss"]) < 1e-6, again
    gtrain("ckpt", "convert", run, "-o", f"{folder}/out.onnx")
    model = Model(f"{folder}/out.onnx")
    names = [name for name, *_ in model.inputs]
    assert names == {"text": ["input_ids", "attention_mask", "token_type_ids"], "table": ["numbers", "city", "size"], "scan": ["image", "facts", "known"]}[kind], names
    far = float((model.run(*inputs) - scores).abs().max() / scores.abs().max())
    assert far < 1e-5, far
    if kind == "scan":
        assert "1 input, but the model was trained on 3" in gtrain("predict", "--ckpt", run, write_row(f"{folder}/row.csv", 27), status=1)
        return
    if kind == "table":  # the columns in another order
        with open(f"{folder}/data.csv") as f:
            rows = [[row[k] for k in (4, 3, 0, 1, 2)] for row in csv.reader(f)]
    else:  # the inputs of a row in their order
        rows = np.concatenate([x.numpy() for x in inputs[:3]], 1).tolist()
    with open(f"{folder}/new.csv", "w", newline="") as f:
        csv.writer(f).writerows(rows)
    answers = list(csv.DictReader(io.StringIO(told("predict", "--ckpt", run, f"{folder}/new.csv", "--csv", "--top", "1"))))
    best = [("abc" if kind == "table" else "012")[i] for i in scores.argmax(1)]
    assert [row["class"] for row in answers] == best, answers


def leave_open(d, *names):
    graph, size = d["graph_module"]["graph"], {"as_expr": {"expr_str": "Symbol('s12', positive=True, integer=True)", "hint": {"as_int": 5}}}
    for name in names or ("input_ids", "attention_mask"):
        graph["tensor_values"][name]["sizes"][1] = size
    if "sym_size_int_1" in graph["sym_int_values"]:
        graph["sym_int_values"]["sym_size_int_1"] = size


@tap.cases(["plain", "indexed"])
def open_length(folder, name):
    """A length that the network leaves open is that of the arrays, and open again in a file of ONNX."""
    net = Bag() if name == "plain" else Indexed()
    (ids, mask, *_), _ = texts(folder)
    exported.save(net, tuple(torch.from_numpy(x[:2]) for x in (ids, mask)), f"{folder}/net.pt2", change=leave_open)
    run = train(folder, f"npz:{folder}/data.npz", "run", "--batch", 8)
    net.load_state_dict(torch.load(f"{run}/model.pth"))
    gtrain("ckpt", "convert", run, "-o", f"{folder}/out.onnx")
    model = Model(f"{folder}/out.onnx")
    for length in (2, T):
        x = tuple(torch.from_numpy(v[:5, :length]) for v in (ids, mask))
        assert float((model.run(*x) - net(*x)).abs().max()) < 1e-5, length
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random,samples=8", "--steps", 1, "--out", f"{folder}/other", "-q")
    np.savez(f"{folder}/apart.npz", input_ids=ids, attention_mask=mask[:, 1:], y=np.arange(SAMPLES) % 3)
    assert "equal in the inputs that share them" in gtrain("train", "--model", f"{folder}/net.pt2", "--data", f"npz:{folder}/apart.npz", "--steps", 1, status=2)


class Beside(nn.Module):
    """Numbers of three dimensions, and a text of any length."""

    def __init__(self):
        super().__init__()
        self.words, self.fc = nn.Embedding(20, 3), nn.Linear(16, 3)

    def forward(self, grid, input_ids):
        return self.fc(torch.flatten(grid, 1)) + torch.sum(self.words(input_ids), [1], False)


@tap.cases([""])
def open_beside_numbers(folder, _):
    """A length stays open in a file of ONNX if the data are no images, as the network's first input may be."""
    grid, ids = np.random.default_rng(6).normal(size=(8, 1, 4, 4)).astype(np.float32), np.arange(40).reshape(8, 5) % 20
    np.savez(f"{folder}/data.npz", grid=grid, input_ids=ids, y=np.arange(8) % 3)
    exported.save(Beside(), (torch.from_numpy(grid[:2]), torch.from_numpy(ids[:2])), f"{folder}/net.pt2", change=lambda d: leave_open(d, "input_ids"))
    gtrain("ckpt", "convert", train(folder, f"npz:{folder}/data.npz,input=grid,target=y", "run", "--batch", 4), "-o", f"{folder}/out.onnx")
    assert [list(shape) for _, _, shape in Model(f"{folder}/out.onnx").inputs] == [["batch", 1, 4, 4], ["batch", "time"]]


@tap.cases([""])
def large_whole_numbers(folder, _):
    """Whole numbers beyond int32 are read for an input of float32, as for a network that takes one."""
    large = np.arange(128).reshape(8, 1, 4, 4) * 10 ** 9
    exported.save(Beside(), (torch.zeros(2, 1, 4, 4), torch.zeros(2, 5, dtype=torch.int64)), f"{folder}/net.pt2")
    runs = []
    for dtype in (np.int64, np.uint64, np.float32):
        np.savez(f"{folder}/data.npz", grid=large.astype(dtype), input_ids=np.arange(40).reshape(8, 5) % 20, y=np.arange(8) % 3)
        runs.append(train(folder, f"npz:{folder}/data.npz,input=grid,target=y", dtype.__name__, "--batch", 4, "--lr", 1e-30))
    assert apart(curve(runs[0]), curve(runs[2])) == apart(curve(runs[1]), curve(runs[2])) == 0


def no_places(d):
    leave_open(d)
    symbol = d["graph_module"]["graph"]["tensor_values"]["input_ids"]["sizes"][1]["as_expr"]["expr_str"]
    d["graph_module"]["graph"]["tensor_values"]["position_ids"]["sizes"][1] = {"as_expr": {"expr_str": f"Add({symbol}, Integer(-{T}))", "hint": {"as_int": 1}}}


@tap.cases([""])
def nothing_to_make(folder, _):
    """An input that is made has at least one value."""
    _, inputs, _, data = make(folder, "text")
    exported.save(Text(), tuple(x[:2] for x in inputs), f"{folder}/net.pt2", change=no_places)
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", data, "--steps", 1, status=2)
    assert "takes the input 'position_ids', which the data do not have" in said, said


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x, output):
        return self.fc(torch.cat([x, output], 1))


@tap.cases([""])
def names_of_onnx(folder, _):
    """A file of ONNX calls its result "output", so that no input can have this name."""
    exported.save(Named(), (torch.zeros(2, 3), torch.zeros(2, 2)), f"{folder}/net.pt2")
    assert "an input is called 'output'" in gtrain("ckpt", "convert", f"{folder}/net.pt2", "-o", f"{folder}/out.onnx", status=1)


@tap.cases([""])
def texts_of_tokens(folder, _):
    """Inputs that follow from the length of a text are made: the curve is that of a network which makes them itself."""
    curves, ids = [], torch.zeros(2, T, dtype=torch.int64)
    one = WriterOfOne()
    four = WriterOfFour()
    four.load_state_dict({k: v for k, v in one.state_dict().items() if k != "at"})
    for name, net, example in (("one", one, ids), ("four", four, (ids, ids + 1, ids, torch.arange(T).expand(2, T).contiguous()))):
        exported.save(net, example, f"{folder}/{name}.pt2")
        gtrain("train", "--model", f"{folder}/{name}.pt2", "--data", f"tokens:{tokens(folder)},vocab=30",
               "--steps", 6, "--batch", 8, "--out", f"{folder}/{name}", *COMMON)
        curves.append(curve(f"{folder}/{name}"))
    assert apart(*curves) < 1e-6, curves


def tokens(folder):
    path = f"{folder}/tokens.bin"
    np.random.default_rng(1).integers(0, 30, 600).astype(np.uint16).tofile(path)
    return path


@tap.cases(["text", "table"])
def random_data(folder, kind):
    """Samples of the shapes that the network takes."""
    make(folder, kind)
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random,samples=16", "--steps", 2, "--batch", 8, "--out", f"{folder}/run", *COMMON)


class Pair(nn.Module):
    """An input has a usual name of targets."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x, y):
        return self.fc(torch.cat([x, y], 1))


def drop_sizes(document):
    document["graph_module"]["graph"]["tensor_values"]["y"]["sizes"] = []


# change of the network, arrays, settings; status, what is said
PAIRS = {
    "labels": (None, "xyl", "", 0, "inputs are 'x', 'y', targets 'labels'"),
    "no target": (None, "xy", "", 1, "the network takes x float32 [3], y float32 [2]"),
    "one input twice": (None, "xyl", ",input=x,input.x=x,target=labels", 2, "input= and input.x= both name"),
    "no batch": (drop_sizes, "xyl", "", 1, "the input 'y' has no dimensions"),
}


@tap.cases(PAIRS)
def pairs(folder, name):
    """An array that the network takes as an input is not read as targets, too."""
    change, arrays, settings, status, said = PAIRS[name]
    x, y = torch.ones(SAMPLES, 3), torch.ones(SAMPLES, 2)
    every = {"x": ("x", x), "y": ("y", y), "l": ("labels", torch.arange(SAMPLES) % 3)}
    exported.save(Pair(), (x[:2], y[:2]), f"{folder}/net.pt2", change=change)
    np.savez(f"{folder}/data.npz", **{every[k][0]: every[k][1].numpy() for k in arrays})
    assert said in gtrain("train", "--model", f"{folder}/net.pt2", "--data", f"npz:{folder}/data.npz{settings}", "--steps", 1, "--out", f"{folder}/run", status=status)


# ---- what cannot be given ----

REFUSED = {  # the network, arrays in place of those of the data or the settings of the table, status, what the message says
    "missing array": ("text", {"attention_mask": None}, 1, ["'attention_mask'", "input_ids int64 [8], attention_mask int64 [8]"]),
    "wrong type": ("text", {"input_ids": np.zeros((SAMPLES, T), np.float32)}, 1, ["'input_ids' of float32 [43, 8]", "whole numbers"]),
    "wrong length": ("text", {"token_type_ids": np.zeros((SAMPLES, T - 1), np.int64)}, 1, ["'token_type_ids'", "[7]", "[8]"]),
    "wrong count": ("text", {"attention_mask": np.ones((SAMPLES - 1, T), np.int64)}, 1, ["43 samples in 'input_ids', but 42 in 'attention_mask'"]),
    "number beyond int32": ("text", {"input_ids": np.full((SAMPLES, T), 2 ** 40)}, 1, ["'input_ids': sample"]),
    "number beyond the table": ("text", {"token_type_ids": np.full((SAMPLES, T), 5)}, 1, ["error: types: embedding: id 5 at [0, 0]", "numbered from 0"]),
    "not finite": ("scan", {"facts": np.full((SAMPLES, 2), np.nan)}, 1, ["'facts': sample", "nan"]),
    "no columns": ("table", "input.city=city", 2, ["no column is for the input 'size'", "numbers float32 [3], city int64 [], size int64 [1]"]),
    "unknown column": ("table", "input.city=town,input.size=size", 2, ["no column 'town'"]),
    "unknown input": ("table", "input.town=city,input.size=size", 2, ["no input 'town'", "city int64 []"]),
    "column twice": ("table", "input.city=city,input.size=city", 2, ["column 'city' is given to two inputs"]),
    "input twice": ("table", "input.city=city,input.city=size", 2, ["'input.city' is given twice"]),
    "target as input": ("table", "input.city=class,input.size=size", 2, ["column 'class' is the target"]),
    "too many columns": ("table", "input.city=city/size,input.size=u", 1, ["'size'", "no whole number"]),
    "missing id": ("table", {"size": ""}, 1, ["column 'size'", "the value is missing"]),
    "truth of fractions": ("scan", {"known": np.zeros((SAMPLES, 2), np.float32)}, 1, ["'known' of float32 [43, 2]", "whole numbers"]),
    "two values for one": ("table", "input.city=city,input.size=size,skip=u", 1, ["the input 'numbers' make 2 values", "[3]"]),
    "other kind": ("table", None, 2, ["takes the input 'city', which the data do not have", "input.NAME=COLUMN"]),
    "one input": (None, "input.city=city", 2, ["no input 'city'", "several inputs"]),
}


@tap.cases(REFUSED)
def refused(folder, name):
    kind, change, status, words = REFUSED[name]
    _, _, _, data = make(folder, kind or "table")
    if isinstance(change, dict) and kind == "table":
        with open(f"{folder}/data.csv") as f:
            rows = list(csv.DictReader(f))
        with open(f"{folder}/data.csv", "w", newline="") as f:
            csv.writer(f).writerows([list(rows[0]), *[list({**row, **(change if i == 7 else {})}.values()) for i, row in enumerate(rows)]])
    elif isinstance(change, dict):
        with np.load(f"{folder}/data.npz") as archive:
            arrays = {k: v for k, v in {**archive, **change}.items() if v is not None}
        np.savez(f"{folder}/data.npz", **arrays)
    elif change:
        data = f"csv:{folder}/data.csv,{change}"
    else:
        data = "random:3/3"
    said = gtrain("train", "--model", f"{folder}/net.pt2" if kind else "mlp", "--data", data, "--steps", 1, status=status)
    assert all(word in said for word in words), said
    assert len([line for line in said.splitlines() if line.startswith("gtrain: error")]) == 1, said


sys.exit(tap.run([beside, reproducible, resumed, *tap.parts], os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "sampler_dump"), sys.argv[1:]))
