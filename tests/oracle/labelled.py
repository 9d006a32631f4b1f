#!/usr/bin/env python3
"""
labelled.py - texts with a class each: their tokens, special tokens and padding, PyTorch's curve, evaluation and prediction (TAP).

TOKENIZERS_PYTHON names a python that has the package `tokenizers`, whose samples must be those of layout(); HF_PYTHON one that has
transformers, whose BERT is exported and trained.
"""
import csv
import io
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import exported  # noqa: E402
import tap  # noqa: E402
from training import GTRAIN, apart, curve, gtrain, np, torch  # noqa: E402

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import mixup  # noqa: E402

nn, F, SAMPLES, T, BOUND = torch.nn, torch.nn.functional, mixup.SAMPLES, 12, 1e-5
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(a + b for a in "bdfgk" for b in "aeiou")]
COMMON = [*mixup.COMMON, *mixup.SGD, "--lr", 0.05]


# ---- tokenizers ----

def part(name, kind):
    return {"SpecialToken" if name.startswith("[") else "Sequence": {"id": name, "type_id": kind}}


TEMPLATE = {"type": "TemplateProcessing", "single": [part("[CLS]", 0), part("A", 0), part("[SEP]", 0)],
            "pair": [part("[CLS]", 0), part("A", 0), part("[SEP]", 0), part("B", 1), part("[SEP]", 1)],
            "special_tokens": {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}}
FIXED = {"sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
PROCESSORS = {"template": TEMPLATE, "BERT": {"type": "BertProcessing", **FIXED},
              "RoBERTa": {"type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": False, **FIXED}, "none": None,
              "in a sequence": {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, TEMPLATE]}}


def write_tokenizer(folder, processor, **more):
    added = [{"id": i, "content": WORDS[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in range(4)]
    os.makedirs(f"{folder}/tok", exist_ok=True)
    with open(f"{folder}/tok/tokenizer.json", "w") as f:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                   "pre_tokenizer": {"type": "Whitespace"}, "post_processor": processor, "decoder": None,
                   "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                             "vocab": {word: i for i, word in enumerate(WORDS)}}, **more}, f)


def layout(name, texts, block):
    """The ids, the mask and the types of a sample: the longer text is cut first."""
    ids = [[WORDS.index(word) for word in text.split()] for text in texts]
    begin, end = ([], []) if name == "none" else ([2], [3])
    second = [] if len(ids) == 1 else [*(end if name == "RoBERTa" else []), None, *end]
    room = block - len(begin) - len(end) - len([x for x in second if x])
    if len(ids) == 1:
        del ids[0][room:]
    elif len(ids[0]) + len(ids[1]) > room:
        short, long = sorted(ids, key=len)
        del short[room // 2:]
        del long[room - len(short):]
    first = [*begin, *ids[0], *end]
    last = [i for x in second for i in ([x] if x else ids[1])]
    types = [0] * len(first) + [int(name != "RoBERTa")] * len(last)
    return tuple(row + [0] * (block - len(row)) for row in (first + last, [1] * len(types), types))


# ---- networks and data ----

class Reader(nn.Module):
    """A classifier that sees every id, padding too, with its place, type and mask."""

    def __init__(self, classes=3):
        super().__init__()
        self.words, self.types, self.fc1, self.fc2 = nn.Embedding(len(WORDS), 8), nn.Embedding(2, 8), nn.Linear(8, 8), nn.Linear(8, classes)

    def pool(self, x, attention_mask):
        kept = torch.unsqueeze(attention_mask, -1)
        return torch.tanh(torch.sum(x * kept, [1], False) / torch.sum(kept, [1], False)) + torch.mean(x, [1])

    def forward(self, input_ids, attention_mask, token_type_ids):
        x = self.words(input_ids) + self.types(token_type_ids)
        return self.fc2(torch.tanh(self.fc1(self.pool(torch.tanh(self.fc1(x)), attention_mask))))


class Placed(Reader):
    """The same for samples of T tokens, with the places of tokens, which the network is given."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(T, 8)

    def forward(self, input_ids, attention_mask, token_type_ids, position_ids):
        x = self.words(input_ids) + self.types(token_type_ids) + self.places(position_ids)
        return self.fc2(torch.tanh(self.fc1(self.pool(torch.tanh(self.fc1(x)), attention_mask))))


def leave_open(d):
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        d["graph_module"]["graph"]["tensor_values"][name]["sizes"][1] = {
            "as_expr": {"expr_str": "Symbol('s12', positive=True, integer=True)", "hint": {"as_int": 5}}}


def rows(count=SAMPLES, longest=T, seed=4, labels=(0, 1, 2), label="label"):
    rng = np.random.default_rng(seed)
    text, other = ([" ".join(WORDS[i] for i in rng.integers(4, len(WORDS), rng.integers(least, longest))) for _ in range(count)] for least in (1, 0))
    return [{"text": text[i], "other": other[i], label: labels[i % len(labels)]} for i in range(count)]


def write(path, lines):
    with open(path, "w") as f:
        f.write("".join(json.dumps(line) + "\n" for line in lines))
    return path


def arrays(name, lines, members, block):
    laid = [layout(name, [line[m] for m in members], block) for line in lines]
    return [torch.tensor(column) for column in zip(*laid)]


def make(folder, network, processor=TEMPLATE, change=None):
    torch.manual_seed(2)
    net, x = network(), torch.ones(2, T, dtype=torch.long)
    exported.save(net, (x,) * (4 if network is Placed else 3), f"{folder}/net.pt2", change=change)
    write_tokenizer(folder, processor)
    return net


def data(folder, *more):
    return ",".join([f"labelled:{folder}/rows.jsonl", f"tokenizer={folder}/tok", *more])


def told(*args):
    done = subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def places(count, block=T):
    return torch.arange(block).expand(count, block)


# ---- samples ----

@tap.cases([f"{name}, {kind}" for name in PROCESSORS for kind in ("texts", "pairs")])
def samples(folder, name):
    """A network that sees every token has PyTorch's loss, of texts that are cut and of texts that are padded."""
    name, kind = name.split(", ")
    net, lines = make(folder, Placed, PROCESSORS[name]), rows()
    write(f"{folder}/rows.jsonl", lines)
    members = ["text", "other"] if kind == "pairs" else ["text"]
    torch.save(net.state_dict(), f"{folder}/net.pth")
    spec = data(folder, *(["second=other"] if kind == "pairs" else []))
    got = json.loads(told("eval", "--model", f"{folder}/net.pt2", "--ckpt", f"{folder}/net.pth", "--data", spec, "--json", "-q"))
    x = arrays("template" if name == "in a sequence" else name, lines, members, T)
    with torch.no_grad():
        want = float(F.cross_entropy(net(*x, places(SAMPLES)), torch.tensor([line["label"] for line in lines])))
    assert abs(got["loss"] - want) < 1e-5 * want, (got["loss"], want)


PACKAGE = """
import json, sys
from tokenizers import Tokenizer
for request in map(json.loads, sys.stdin):
    tok = Tokenizer.from_file(request["file"])
    tok.enable_truncation(request["block"], strategy="longest_first")
    tok.enable_padding(length=request["block"], pad_id=0)
    e = tok.encode(*request["texts"])
    print(json.dumps([e.ids, e.attention_mask, e.type_ids]))
"""


def package(folder):
    python = os.environ.get("TOKENIZERS_PYTHON")
    if not python:
        yield "samples are those of the package", tap.Skip("tokenizers: TOKENIZERS_PYTHON names a python that has it")
        return
    requests, want = [], []
    for i, (name, processor) in enumerate(PROCESSORS.items()):
        write_tokenizer(f"{folder}/{i}", processor)
        for line in rows(200, 20, seed=i):
            for members in (["text"], ["text", "other"]):
                for block in (8, 9, 31):
                    texts = [line[m] for m in members]
                    requests.append({"file": f"{folder}/{i}/tok/tokenizer.json", "block": block, "texts": texts})
                    want.append([list(x) for x in layout("template" if name == "in a sequence" else name, texts, block)])
    said = subprocess.run([python, "-c", PACKAGE], input="".join(json.dumps(r) + "\n" for r in requests), capture_output=True, text=True)
    got = [json.loads(line) for line in said.stdout.splitlines()]
    far = [(r, g, w) for r, g, w in zip(requests, got, want) if g != w]
    yield "samples are those of the package", said.stderr or (f"{len(far)} of {len(want)} differ: {far[0]}" if far else "" if len(got) == len(want) else "too few")


# ---- training ----

MODES = [(1, 8, 1, []), (2, 4, 2, []), (2, 4, 1, ["--parallel", "zero3"]), (2, 4, 1, ["--parallel", "mirrored"])]


def training(folder):
    """Samples of an open network have the length of the longest row."""
    for ranks, batch, accumulate, more in MODES:
        net, lines = make(folder, Reader, change=leave_open), rows()
        write(f"{folder}/rows.jsonl", lines)
        block = 2 + max(len(line["text"].split()) for line in lines)
        x, y = arrays("template", lines, ["text"], block), torch.tensor([line["label"] for line in lines])
        opt, want = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), []
        for epoch in range(2):
            read = [mixup.batches(ranks, rank, batch, epoch) for rank in range(ranks)]
            for first in range(0, len(read[0]), accumulate):
                chosen = [k for i in range(first, min(first + accumulate, len(read[0]))) for rank in range(ranks) for k in read[rank][i]]
                loss = F.cross_entropy(net(*(v[chosen] for v in x)), y[chosen])
                opt.zero_grad()
                loss.backward()
                opt.step()
                want.append({"loss": float(loss)})
        out = f"{folder}/{ranks}-{accumulate}-{len(more)}-{more[-1:]}"
        gtrain("train", "--model", f"{folder}/net.pt2", "--data", data(folder), "--epochs", 2, "--out", out, "--nproc", ranks, "--batch", batch,
               "--accumulate", accumulate, *COMMON, *more)
        got = curve(out)
        far = apart(got, want) if len(got) == len(want) else 1
        yield f"{ranks} ranks, {accumulate} micro-batches {more}", "" if far <= BOUND else f"losses {far:.1e}, {len(got)} steps"


BERT = """
import json, os, sys
import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
folder, steps = sys.argv[1], int(sys.argv[2])
lines = [json.loads(line) for line in open(folder + "/rows.jsonl")]
tok = PreTrainedTokenizerFast(tokenizer_file=folder + "/tok/tokenizer.json", pad_token="[PAD]")
x = tok([line["text"] for line in lines], [line["other"] for line in lines], padding=True, return_tensors="pt", return_token_type_ids=True)
y = torch.tensor([line["label"] for line in lines])
torch.manual_seed(1)
config = BertConfig(vocab_size=len(tok), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=40,
                    num_labels=3, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
net = BertForSequenceClassification(config)
sizes = {0: torch.export.Dim("batch", min=1, max=1024), 1: torch.export.Dim("length", min=2, max=40)}
names = ["input_ids", "attention_mask", "token_type_ids"]
if steps:
    example = {name: x[name][:2, :8].contiguous() for name in names}
    torch.export.save(torch.export.export(net, (), example, dynamic_shapes={name: sizes for name in names}), folder + "/net.pt2")
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(net(**{name: x[name] for name in names}).logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(float(loss))
else:
    print(net.load_state_dict(torch.load(folder + "/run/model.pth"), strict=True))
"""


def transformers(folder):
    """A BERT that transformers exports has its curve, and goes back into the module."""
    label, python, steps = "a BERT of transformers, pairs of texts", os.environ.get("HF_PYTHON"), 20
    if not python:
        yield label, tap.Skip("transformers: HF_PYTHON names a python that has it")
        return
    bert = lambda count: subprocess.run([python, "-c", BERT, folder, str(count)], capture_output=True, text=True)  # noqa: E731
    write_tokenizer(folder, TEMPLATE)
    write(f"{folder}/rows.jsonl", rows())
    done = bert(steps)
    if done.returncode:
        yield label, done.stderr
        return
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", data(folder, "second=other"), "--steps", steps, "--batch", SAMPLES, "--out", f"{folder}/run", *COMMON)
    far = apart(curve(f"{folder}/run"), [{"loss": float(line)} for line in done.stdout.split()])
    back = bert(0)
    yield label, back.stderr if back.returncode else "" if far <= BOUND else f"losses {far:.1e}"
    gtrain("ckpt", "convert", f"{folder}/run", "-o", f"{folder}/out.onnx")
    evaluate = ["eval", "--data", data(folder, "second=other"), "--json", "-q", "--ckpt"]
    run, onnx = (json.loads(told(*evaluate, *more))["loss"] for more in ([f"{folder}/run"], [f"{folder}/out.onnx", "--model", f"{folder}/out.onnx"]))
    yield "its file of ONNX", "" if abs(run - onnx) < 1e-6 else f"losses {run} and {onnx}"


@tap.cases(["texts", "pairs"])
def used(folder, kind):
    """A run evaluates other rows by the names of their classes, and predicts, with the tokenizer, the members and the length of the training."""
    names, pair, named = ("good", "bad", "so"), kind == "pairs", {"label": "stars"}
    members = ["text", "other"] if pair else ["text"]
    net = make(folder, Reader, change=leave_open)
    write(f"{folder}/rows.jsonl", rows(labels=names, **named))
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", data(folder, "label=stars", *(["second=other"] if pair else [])), "--val-split", "0.2", "--epochs", 2,
           "--out", f"{folder}/run", "--batch", 8, *COMMON)
    net.load_state_dict(torch.load(f"{folder}/run/best.pth"))
    block = max(sum(layout("template", [line[m] for m in members], 99)[1]) for line in rows())  # of the longest row
    new = rows(9, 20, seed=7, labels=("so", "good"), **named)
    write(f"{folder}/new.jsonl", new)
    evaluate = ["eval", "--ckpt", f"{folder}/run", "--data", f"labelled:{folder}/new.jsonl"]
    for length, more in ((block, ""), (9, ",block=9")):
        with torch.no_grad():
            scores = net(*arrays("template", new, members, length))
        want = float(F.cross_entropy(scores, torch.tensor([sorted(names).index(line["stars"]) for line in new])))
        got = json.loads(told(*evaluate[:-1], evaluate[-1] + more, "--json", "-q"))
        assert abs(got["loss"] - want) < 1e-5 * want, (length, got["loss"], want)
    with torch.no_grad():
        scores = net(*arrays("template", new, members, block))
    plain = write(f"{folder}/plain.jsonl", [{m: line[m] for m in members} for line in new])
    answers = list(csv.DictReader(io.StringIO(told("predict", "--ckpt", f"{folder}/run", plain, "--csv", "--top", "1"))))
    assert [a["class"] for a in answers] == [sorted(names)[i] for i in scores.argmax(1)], answers
    write(plain, [{"mine": line["text"], "its": line["other"]} for line in new])
    other = told("predict", "--ckpt", f"{folder}/run", plain, "--csv", "--top", "1", "--read", "text=mine" + (",second=its" if pair else ""))
    assert list(csv.DictReader(io.StringIO(other))) == answers, other
    if not pair:
        assert "trained on rows with one text" in gtrain(*evaluate[:-1], f"{evaluate[-1]},second=other", status=2)
    write(f"{folder}/new.jsonl", rows(9, labels=("good", "what"), **named))
    assert "'what'" in gtrain(*evaluate, status=1)
    train = ["train", "--model", f"{folder}/net.pt2", "--steps", 1, "--batch", 8, "--out", f"{folder}/next", *COMMON]
    spec = data(folder, "label=stars")
    assert "but the model is trained with" in gtrain(*train, "--data", spec, "--val", f"{spec},block=5", status=2)
    gtrain(*train, "--data", data(folder, "label=stars", "second=other", "block=17"), "--init-from", f"{folder}/run")  # another form of samples
    write_tokenizer(folder, None)
    assert "is not the tokenizer" in gtrain(*evaluate[:-1], f"{evaluate[-1]},tokenizer={folder}/tok", status=2)


@tap.cases([""])
def cut(folder, _):
    """A run says how many texts are cut."""
    make(folder, Reader, change=leave_open)
    write(f"{folder}/rows.jsonl", [{"text": "ba be bi", "label": i} for i in range(2)] + [{"text": "ba " * 9, "label": 2}])
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", data(folder, "block=6"), "--steps", 1, "--out", f"{folder}/run")
    assert "3 texts of at most 6 tokens, with special tokens" in said and "cut after 6 tokens: 1 of 3 texts" in said, said


@tap.cases([""])
def ignored(folder, _):
    """The loss leaves out rows with this number."""
    net, lines = make(folder, Placed), rows(labels=(0, -1, 2))
    write(f"{folder}/rows.jsonl", lines)
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", data(folder), "--loss", "cross-entropy:ignore-index=-1", "--steps", 1, "--batch", SAMPLES,
           "--out", f"{folder}/run", *COMMON)
    y, got = torch.tensor([line["label"] for line in lines]), curve(f"{folder}/run")[0]["loss"]
    with torch.no_grad():
        want = float(F.cross_entropy(net(*arrays("template", lines, ["text"], T), places(SAMPLES)), y, ignore_index=-1))
    assert abs(got - want) < 1e-5 * want, (got, want)


# ---- what cannot be read ----

ROW = {"text": "ba be", "label": 1}
REFUSED = {  # rows, settings, status, what the message says
    "no text": ([{"txt": "ba", "label": 1}], "", 1, ["line 1", "no text 'text'", "text=NAME"]),
    "text of a number": ([ROW, {"text": 3, "label": 1}], "", 1, ["line 2", "no text 'text'"]),
    "no second text": ([ROW], "second=other", 1, ["no text 'other'"]),
    "no label": ([ROW, {"text": "ba"}], "", 1, ["line 2", "no label 'label'", "label=NAME"]),
    "label that is a fraction": ([{"text": "ba", "label": 0.5}], "", 1, ["'label' is neither a word nor a whole number"]),
    "empty label": ([{"text": "ba", "label": ""}], "", 1, ["neither a word nor a whole number"]),
    "label null": ([{"text": "ba", "label": None}], "", 1, ["neither a word nor a whole number"]),
    "words and numbers": ([ROW, {"text": "ba", "label": "one"}], "", 1, ["line 2", "is a word, but that of the first row is a number"]),
    "negative label": ([{"text": "ba", "label": -1}], "", 1, ["line 1", "-1 is not a class from 0 to 65535"]),
    "huge label": ([{"text": "ba", "label": 2 ** 40}], "", 1, ["line 1", "not a class from 0 to 65535"]),
    "more classes than outputs": ([{"text": "ba", "label": 7}], "", 2, ["classes"]),
    "another block": ([ROW], "block=9", 2, ["block=9", "takes 12 tokens"]),
    "no rows": ([], "", 1, ["no lines"]),
    "no tokens": ([ROW, {"text": "", "label": 1}], "", 1, ["line 2", "no tokens"]),
    "not JSON": (None, "", 1, ["line 1", "not JSON"]),
}


def refuse(folder, model, spec, status, words):
    said = gtrain("train", "--model", model, "--data", spec, "--steps", 1, "--out", f"{folder}/run", status=status)
    assert all(word in said for word in words), said
    assert len([line for line in said.splitlines() if line.startswith("gtrain: error")]) == 1, said


@tap.cases(REFUSED)
def refused(folder, name):
    lines, settings, status, words = REFUSED[name]
    make(folder, Placed, None if name == "no tokens" else TEMPLATE)
    write(f"{folder}/rows.jsonl", lines or [])
    if lines is None:
        with open(f"{folder}/rows.jsonl", "w") as f:
            f.write("text,label\n")
    refuse(folder, f"{folder}/net.pt2", data(folder, *filter(None, [settings])), status, words)


class Numbers(nn.Module):
    """A network that takes no tokens besides numbers."""

    def __init__(self):
        super().__init__()
        self.words, self.fc = nn.Embedding(len(WORDS), 4), nn.Linear(3, 4)

    def forward(self, input_ids, facts):
        return torch.mean(self.words(input_ids), [1]) + self.fc(facts)


@tap.cases(["no kind", "a table", "a model of images", "an input that texts lack", "no tokenizer", "no room", "from a pipe"])
def networks(folder, name):
    make(folder, Reader, change=leave_open)
    write(f"{folder}/rows.jsonl", [ROW])
    if name == "no kind":
        refuse(folder, f"{folder}/net.pt2", f"{folder}/rows.jsonl", 2, [f"labelled:{folder}/rows.jsonl"])
    elif name == "a table":
        with open(f"{folder}/rows.csv", "w") as f:
            f.write("text,label\nba be,1\n")
        refuse(folder, f"{folder}/net.pt2", f"labelled:{folder}/rows.csv,tokenizer={folder}/tok", 1, ["line 1: not JSON", f"read_csv('{folder}/rows.csv'", "lines=True"])
    elif name == "a model of images":
        refuse(folder, "lenet", data(folder), 2, ["are for classifiers that take tokens", "input_ids", "jsonl:FILE"])
    elif name == "an input that texts lack":
        exported.save(Numbers(), (torch.ones(2, T, dtype=torch.long), torch.ones(2, 3)), f"{folder}/net.pt2")
        refuse(folder, f"{folder}/net.pt2", data(folder), 2, ["'facts'", "not known of a text", "input_ids int64"])
    elif name == "no tokenizer":
        refuse(folder, f"{folder}/net.pt2", f"labelled:{folder}/rows.jsonl", 2, ["need a tokenizer of subwords", "tokenizer=DIR"])
    elif name == "no room":
        refuse(folder, f"{folder}/net.pt2", data(folder, "block=2"), 2, ["no room for a text between 2 special tokens"])
    else:
        write(f"{folder}/rows.jsonl", rows())
        gtrain("train", "--model", f"{folder}/net.pt2", "--data", data(folder), "--steps", 1, "--out", f"{folder}/run", "-q")
        said = gtrain("predict", "--ckpt", f"{folder}/run", "-", status=1)
        assert "not from '-'" in said, said


PROCESSORS_REFUSED = {
    "unknown token": ({**TEMPLATE, "special_tokens": {}}, "for '[CLS]'"),
    "id beyond the tokens": ({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 900]}, "900"),
    "no text": ({**TEMPLATE, "single": [part("[CLS]", 0)]}, "the text"),
    "text twice": ({**TEMPLATE, "single": [part("A", 0), part("A", 0)]}, "once"),
    "type": ({**TEMPLATE, "single": [part("A", 300)]}, "type 300"),
    "third text": ({**TEMPLATE, "single": [part("A", 0), part("C", 0)]}, "no token or text"),
    "no name": ({**TEMPLATE, "single": [part("A", 0), {"Sequence": {"id": "", "type_id": 0}}]}, "no token or text"),
    "twice": ({"type": "Sequence", "processors": [TEMPLATE, TEMPLATE]}, "more than once"),
    "many parts": ({**TEMPLATE, "single": [part("A", 0), *[part("[SEP]", 0)] * 20]}, "more than 16 parts"),
}


@tap.cases(PROCESSORS_REFUSED)
def processors(folder, name):
    processor, word = PROCESSORS_REFUSED[name]
    make(folder, Placed, processor)
    write(f"{folder}/rows.jsonl", [ROW])
    refuse(folder, f"{folder}/net.pt2", data(folder), 1, [f"'{folder}/tok", "post_processor", word])


if __name__ == "__main__":
    sys.exit(tap.run([package, training, transformers, *tap.parts], GTRAIN, sys.argv[1:]))
