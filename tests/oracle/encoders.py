#!/usr/bin/env python3
"""
encoders.py - BERT, RoBERTa, DistilBERT and ModernBERT folders: PyTorch's losses, curves in every mode, files of other tasks, and folders written back (TAP).

The reference is written here by its papers. HF_PYTHON names a python that has transformers, whose classes are compared, too.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, apart, curve, gtrain, np, torch  # noqa: E402

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import labelled  # noqa: E402
import mixup  # noqa: E402

F, BOUND, COMMON = torch.nn.functional, 1e-5, labelled.COMMON
STILL = ["--steps", 1, "--optimizer", "sgd", "--lr", 1e-30, "--weight-decay", 0]  # weights stay as they are
LAYERS, HEADS, WIDTH, HIDDEN, BLOCK, CLASSES = 2, 2, 16, 24, 32, 3
SOUNDS = [a + b for a in "bdfgk" for b in "aeiou"]
BERT_WORDS, ROBERTA_WORDS = labelled.WORDS, ["<s>", "<pad>", "</s>", "<unk>", *SOUNDS]

BERT_LEAVES = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value", "o": "attention.output.dense",
               "n1": "attention.output.LayerNorm", "up": "intermediate.dense", "down": "output.dense", "n2": "output.LayerNorm"}
DISTIL_LEAVES = {"q": "attention.q_lin", "k": "attention.k_lin", "v": "attention.v_lin", "o": "attention.out_lin", "n1": "sa_layer_norm",
                 "up": "ffn.lin1", "down": "ffn.lin2", "n2": "output_layer_norm"}
SIZES = {"hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "vocab_size": len(BERT_WORDS),
         "max_position_embeddings": BLOCK, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
FAMILIES = {
    "bert": {"class": "BertForSequenceClassification", "layer": "bert.encoder.layer", "leaves": BERT_LEAVES, "types": 2, "eps": 1e-12, "offset": 0,
             "head": ("bert.pooler.dense", torch.tanh, "classifier"), "words": BERT_WORDS, "processor": labelled.TEMPLATE, "layout": "template",
             "config": {**SIZES, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}},
    "roberta": {"class": "RobertaForSequenceClassification", "layer": "roberta.encoder.layer", "leaves": BERT_LEAVES, "types": 1, "eps": 1e-5, "offset": 2,
                "head": ("classifier.dense", torch.tanh, "classifier.out_proj"), "words": ROBERTA_WORDS,
                "processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": False},
                "config": {**SIZES, "max_position_embeddings": BLOCK + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}},
    "distilbert": {"class": "DistilBertForSequenceClassification", "layer": "distilbert.transformer.layer", "leaves": DISTIL_LEAVES, "types": 0,
                   "eps": 1e-12, "offset": 0, "head": ("pre_classifier", torch.relu, "classifier"), "words": BERT_WORDS, "processor": labelled.TEMPLATE,
                   "layout": "template",
                   "config": {"dim": WIDTH, "hidden_dim": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS, "vocab_size": len(BERT_WORDS),
                              "max_position_embeddings": BLOCK, "dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}},
    # Windows reach 2 tokens to each side, so that padding has some where there is no token.
    "modernbert": {"class": "ModernBertForSequenceClassification", "head": ("head", None, "classifier"), "words": BERT_WORDS, "processor": labelled.TEMPLATE,
                   "layout": "template",
                   "config": {"hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": 4, "num_attention_heads": HEADS,
                              "vocab_size": len(BERT_WORDS), "max_position_embeddings": BLOCK, "local_attention": 4, "pad_token_id": 0,
                              "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}},
}
# For hidden tokens: the layer behind the last block, its norm, and the bias of the scores.
DECODERS = {"bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
            "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
            "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"), "modernbert": ("head.dense", "head.norm", "decoder.bias")}
WAYS = {"": {}, "mean and biases": {"classifier_pooling": "mean", "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True},
        "other windows": {"global_attn_every_n_layers": 2, "local_attention": 6, "global_rope_theta": 500.0, "local_rope_theta": 50.0},
        "no windows": {"local_attention": 2 * BLOCK}}


# ---- the reference ----

def weights(name, seed=1, way="", masked=False):
    """Random weights in the order of transformers, for classes or for hidden tokens."""
    f, g = FAMILIES[name], torch.Generator().manual_seed(seed)
    w, decoder = {}, DECODERS[name]

    def draw(key, *shape, norm=False):
        w[key] = (torch.randn(*shape, generator=g) * 0.2 + norm).requires_grad_()

    def dense(key, out, into):
        draw(f"{key}.weight", out, into)
        draw(f"{key}.bias", out)

    def norm(key):
        draw(f"{key}.weight", WIDTH, norm=True)
        draw(f"{key}.bias", WIDTH)

    if name == "modernbert":
        draw("model.embeddings.tok_embeddings.weight", len(f["words"]), WIDTH)
        norm("model.embeddings.norm")
        for i in range(f["config"]["num_hidden_layers"]):
            layer = f"model.layers.{i}"
            if i:
                norm(f"{layer}.attn_norm")
            dense(f"{layer}.attn.Wqkv", 3 * WIDTH, WIDTH)
            dense(f"{layer}.attn.Wo", WIDTH, WIDTH)
            norm(f"{layer}.mlp_norm")
            dense(f"{layer}.mlp.Wi", 2 * HIDDEN, WIDTH)
            dense(f"{layer}.mlp.Wo", WIDTH, HIDDEN)
        norm("model.final_norm")
        dense("head.dense", WIDTH, WIDTH)
        norm("head.norm")
        draw("decoder.bias", len(f["words"])) if masked else dense("classifier", CLASSES, WIDTH)
        return w if "norm_bias" in WAYS[way] else {key: v for key, v in w.items() if key.endswith("weight") or key in ("classifier.bias", "decoder.bias")}
    e = f"{name}.embeddings"
    draw(f"{e}.word_embeddings.weight", len(f["words"]), WIDTH)
    draw(f"{e}.position_embeddings.weight", BLOCK + f["offset"], WIDTH)
    if f["types"]:
        draw(f"{e}.token_type_embeddings.weight", f["types"], WIDTH)
    norm(f"{e}.LayerNorm")
    for i in range(LAYERS):
        for part, leaf in f["leaves"].items():
            key = f"{f['layer']}.{i}.{leaf}"
            norm(key) if part in ("n1", "n2") else dense(key, HIDDEN if part == "up" else WIDTH, HIDDEN if part == "down" else WIDTH)
    if masked:
        if name != "distilbert":
            draw(decoder[2], len(f["words"]))
        dense(decoder[0], WIDTH, WIDTH)
        norm(decoder[1])
        if name == "distilbert":
            draw(decoder[2], len(f["words"]))
        return w
    dense(f["head"][0], WIDTH, WIDTH)
    dense(f["head"][2], CLASSES, WIDTH)
    return w


def modernbert(w, ids, mask, way):
    """The scores of ModernBERT: of classes, or of the tokens in each place."""
    config = {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, **FAMILIES["modernbert"]["config"], **WAYS[way]}
    length, tokens = ids.shape[1], (mask != 0)[:, None, None]
    distance = (torch.arange(length)[:, None] - torch.arange(length)).abs()
    near = tokens & (distance <= config["local_attention"] // 2) | (distance == 0)  # a token sees itself: padding has no NaN

    def dense(key, x):
        return F.linear(x, w[f"{key}.weight"], w.get(f"{key}.bias"))

    def norm(key, x):
        return F.layer_norm(x, (WIDTH,), w[f"{key}.weight"], w.get(f"{key}.bias"), 1e-5)

    def turned(x, theta):
        half = x.shape[3] // 2
        angles = torch.arange(length)[:, None] * theta ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], 3)

    x = norm("model.embeddings.norm", w["model.embeddings.tok_embeddings.weight"][ids])
    for i in range(config["num_hidden_layers"]):
        layer, full = f"model.layers.{i}", i % config["global_attn_every_n_layers"] == 0
        theta = config["global_rope_theta" if full else "local_rope_theta"]
        y = dense(f"{layer}.attn.Wqkv", norm(f"{layer}.attn_norm", x) if i else x).view(*x.shape[:2], 3, HEADS, -1)
        q, k, v = (part.transpose(1, 2) for part in y.unbind(2))
        q, k = turned(q, theta), turned(k, theta)
        scores = (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).masked_fill(~(tokens if full else near), -torch.inf)
        x = x + dense(f"{layer}.attn.Wo", (scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape))
        a, b = dense(f"{layer}.mlp.Wi", norm(f"{layer}.mlp_norm", x)).chunk(2, 2)
        x = x + dense(f"{layer}.mlp.Wo", F.gelu(a) * b)
    x = norm("model.final_norm", x)
    if "decoder.bias" in w:
        return F.linear(norm("head.norm", F.gelu(dense("head.dense", x))), w["model.embeddings.tok_embeddings.weight"], w["decoder.bias"])
    x = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True) if "classifier_pooling" in WAYS[way] else x[:, 0]
    return dense("classifier", norm("head.norm", F.gelu(dense("head.dense", x))))


def network(name, w, ids, mask, types, way=""):
    """The scores of texts: of classes, or of the tokens in each place, if the weights are for those."""
    f = FAMILIES[name]
    if name == "modernbert":
        return modernbert(w, ids, mask, way)
    e = f"{name}.embeddings"

    def dense(key, x):
        return F.linear(x, w[f"{key}.weight"], w[f"{key}.bias"])

    def norm(key, x):
        return F.layer_norm(x, (WIDTH,), w[f"{key}.weight"], w[f"{key}.bias"], f["eps"])

    def heads(x):
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    places = torch.arange(ids.shape[1]).expand_as(ids)
    if f["offset"]:
        tokens = (ids != 1).long()
        places = torch.cumsum(tokens, 1) * tokens + 1
    x = w[f"{e}.word_embeddings.weight"][ids] + w[f"{e}.position_embeddings.weight"][places]
    if f["types"]:
        x = x + w[f"{e}.token_type_embeddings.weight"][types if f["types"] > 1 else torch.zeros_like(types)]
    x = norm(f"{e}.LayerNorm", x)
    for i in range(LAYERS):
        at = {part: f"{f['layer']}.{i}.{leaf}" for part, leaf in f["leaves"].items()}
        q, k, v = (heads(dense(at[part], x)) for part in "qkv")
        scores = (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).masked_fill(mask[:, None, None] == 0, -torch.inf)
        y = (scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape)
        x = norm(at["n1"], x + dense(at["o"], y))
        x = norm(at["n2"], x + dense(at["down"], F.gelu(dense(at["up"], x))))
    transform, its_norm, bias = DECODERS[name]
    if bias in w:
        return F.linear(norm(its_norm, F.gelu(dense(transform, x))), w[f"{e}.word_embeddings.weight"], w[bias])
    first, activation, last = f["head"]
    return dense(last, activation(dense(first, x[:, 0])))


# ---- folders and data ----

def config_of(name, **more):
    f = FAMILIES[name]
    return {"model_type": name, "architectures": [f["class"]], **f["config"], "id2label": {str(i): f"LABEL_{i}" for i in range(CLASSES)}, **more}


def write_tokenizer(folder, name):
    words = FAMILIES[name]["words"]
    added = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in range(4)]
    with open(f"{folder}/tokenizer.json", "w") as f:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
                   "post_processor": FAMILIES[name]["processor"], "decoder": None,
                   "model": {"type": "WordPiece", "unk_token": words[3 if name == "roberta" else 1], "continuing_subword_prefix": "##",
                             "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}}}, f)


def write_folder(folder, name, w, **more):
    os.makedirs(folder, exist_ok=True)
    torch.save({key: value.detach().clone() for key, value in w.items()}, f"{folder}/pytorch_model.bin")
    with open(f"{folder}/config.json", "w") as f:
        json.dump(config_of(name, **more), f)
    write_tokenizer(folder, name)


def rows(name, labels=(0, 1, 2)):
    """Texts of several lengths. RoBERTa's have its padding inside, which gets no position."""
    lines = labelled.rows(labels=labels)
    for line in lines[::3] if name == "roberta" else []:
        line["text"] = line["text"].replace(" ", " <pad> ", 1)
    return lines


def samples(name, lines, members, block):
    """ids, mask and types as the processor lays them out."""
    out, words = [], FAMILIES[name]["words"]
    for line in lines:
        ids = [[words.index(word) for word in line[m].split()] for m in members]
        begin, end, pad = (0, 2, 1) if name == "roberta" else (2, 3, 0)
        first, last = [begin, *ids[0], end], ([end] if name == "roberta" else []) + [*ids[1], end] if len(ids) > 1 else []
        kinds = [0] * len(first) + [int(name != "roberta")] * len(last)
        more = block - len(kinds)
        out.append((first + last + [pad] * more, [1] * len(kinds) + [0] * more, kinds + [0] * more))
    return [torch.tensor(column) for column in zip(*out)]


def longest(name, lines, members):
    extra = 2 if len(members) == 1 else 4 if name == "roberta" else 3
    return extra + max(sum(len(line[m].split()) for m in members) for line in lines)


def answers(lines):
    return torch.tensor([line["label"] for line in lines])


def loss_of(name, w, lines, members, way=""):
    with torch.no_grad():
        return float(F.cross_entropy(network(name, w, *samples(name, lines, members, longest(name, lines, members)), way), answers(lines)))


def evaluated(*args):
    return json.loads(labelled.told("eval", *args, "--json", "-q"))["loss"]


# ---- losses ----

@tap.cases([*(f"{name}, {kind}" for name in FAMILIES for kind in ("texts", "pairs")), *(f"modernbert, {way}" for way in WAYS if way)])
def losses(folder, name):
    """A folder has the reference's loss, and a run of it that does not train writes the same weights back."""
    name, kind = name.split(", ")
    members, way = ["text", "other"] if kind == "pairs" else ["text"], kind if kind in WAYS else ""
    w, lines = weights(name, way=way), rows(name)
    write_folder(f"{folder}/hf", name, w, **WAYS[way])
    data = f"labelled:{labelled.write(f'{folder}/rows.jsonl', lines)}" + (",second=other" if kind == "pairs" else "")
    want = loss_of(name, w, lines, members, way)
    got = evaluated("--ckpt", f"{folder}/hf", "--data", data)
    assert abs(got - want) < BOUND * want, (got, want)
    gtrain("train", "--model", f"{folder}/hf", "--data", data, "--batch", 4, "--out", f"{folder}/run", *STILL)
    saved = torch.load(f"{folder}/run/model.pth")
    assert list(saved) == list(w) and all(torch.equal(saved[key], w[key]) for key in w), [key for key in w if not torch.equal(saved[key], w[key])]
    gtrain("ckpt", "convert", f"{folder}/run", "--to", "hf", "-o", f"{folder}/back", "-q")
    assert evaluated("--ckpt", f"{folder}/back", "--data", data) == got
    with open(f"{folder}/back/config.json") as f:
        back = json.load(f)
    wrong = {key: (back.get(key), value) for key, value in config_of(name, **WAYS[way]).items() if back.get(key) != value and key != "global_attn_every_n_layers"}
    assert not wrong, wrong
    gtrain("ckpt", "convert", f"{folder}/run", "-o", f"{folder}/net.onnx", "-q")
    onnx = evaluated("--ckpt", f"{folder}/net.onnx", "--model", f"{folder}/net.onnx", "--data", f"{data},tokenizer={folder}/hf")
    assert abs(onnx - want) < BOUND * want, (onnx, want)


# ---- training ----

MODES = [(1, 8, []), (1, 8, ["--recompute", "all"]), (2, 4, []), (2, 4, ["--parallel", "zero3"]), (2, 4, ["--parallel", "mirrored"]),
         (2, 8, ["--tensor-parallel", "2"]), (2, 8, ["--pipeline-parallel", "2"])]


def training(folder):
    """Fine-tuning has PyTorch's curve in every mode."""
    for name in FAMILIES:
        w, lines = weights(name), rows(name)
        write_folder(f"{folder}/{name}", name, w)
        labelled.write(f"{folder}/rows.jsonl", lines)
        block, y = longest(name, lines, ["text"]), answers(lines)
        x = samples(name, lines, ["text"], block)
        for i, (ranks, batch, more) in enumerate(MODES if name == "bert" else MODES[:1] + MODES[3:4] + MODES[5:]):
            w, want, data_ranks = weights(name), [], ranks if batch == 4 else 1
            opt = torch.optim.SGD(w.values(), lr=0.05, momentum=0.9)
            for epoch in range(2):
                read = [mixup.batches(data_ranks, rank, batch, epoch) for rank in range(data_ranks)]
                for each in zip(*read):
                    chosen = [k for part in each for k in part]
                    loss = F.cross_entropy(network(name, w, *(v[chosen] for v in x)), y[chosen])
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
                    want.append({"loss": float(loss)})
            out = f"{folder}/{name}-{i}"
            gtrain("train", "--model", f"{folder}/{name}", "--data", f"labelled:{folder}/rows.jsonl", "--epochs", 2, "--out", out, "--nproc", ranks, "--batch", batch,
                   *COMMON, *more)
            got, saved = curve(out), torch.load(f"{out}/model.pth")
            far = apart(got, want) if len(got) == len(want) else 1
            off = max(float((saved[key] - w[key]).abs().max()) for key in w)
            yield f"{name}, {ranks} ranks {more}", "" if far <= BOUND and off <= 1e-5 else f"losses {far:.1e}, weights {off:.1e}, {len(got)} steps"


@tap.cases(FAMILIES)
def dropout(folder, name):
    """Both dropouts change the loss of a step, and neither that of an evaluation."""
    w, lines = weights(name), rows(name)
    data = f"labelled:{labelled.write(f'{folder}/rows.jsonl', lines)}"
    first, same, last = {"distilbert": ("dropout", ["attention_dropout"], "seq_classif_dropout"),
                         "modernbert": ("mlp_dropout", ["attention_dropout", "embedding_dropout"], "classifier_dropout")}.get(
                             name, ("hidden_dropout_prob", ["attention_probs_dropout_prob"], "classifier_dropout"))
    want, seen = loss_of(name, w, lines, ["text"]), []
    for i, more in enumerate(({}, {first: 0.3, **dict.fromkeys(same, 0.3), last: 0.0}, {last: 0.3})):
        write_folder(f"{folder}/{i}", name, w, **more)
        gtrain("train", "--model", f"{folder}/{i}", "--data", data, "--steps", 1, "--batch", mixup.SAMPLES, "--out", f"{folder}/run{i}", *mixup.COMMON)
        seen.append(curve(f"{folder}/run{i}")[0]["loss"])
        got = evaluated("--ckpt", f"{folder}/{i}", "--data", data)
        assert abs(got - want) < BOUND * want, (got, want)
    assert abs(seen[0] - want) < BOUND * want and min(abs(seen[1] - want), abs(seen[2] - want)) > 1e-3 * want, (seen, want)


# ---- files of other tasks ----

def of_pretraining(name, w):
    """The file of the same network that was pre-trained: without the last layers, with those of pre-training."""
    first, _, last = FAMILIES[name]["head"]
    base = {key: value for key, value in w.items() if not key.startswith((first, last))}
    extra = {"bert": ["cls.predictions.bias", "cls.predictions.transform.LayerNorm.gamma", "cls.seq_relationship.weight", "bert.embeddings.position_ids"],
             "roberta": ["lm_head.bias", "lm_head.dense.weight", "roberta.pooler.dense.weight"],
             "distilbert": ["vocab_transform.weight", "vocab_layer_norm.bias", "vocab_projector.bias"],
             "modernbert": ["decoder.weight", "decoder.bias"]}[name]
    return {**base, **{key: torch.ones(3) for key in extra}}


def renamed(name, w, form):
    if form == "without the prefix":
        return {key.removeprefix("model." if name == "modernbert" else f"{name}."): value for key, value in w.items()}
    if form == "with gamma and beta":
        return {key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value for key, value in w.items()}
    return w


@tap.cases([*(f"{name}, {form}" for name in FAMILIES for form in ("as it is", "without the prefix")), "bert, with gamma and beta"])
def pretrained(folder, name):
    """A pre-trained network gets new last layers, and keeps all others."""
    name, form = name.split(", ")
    w, lines = weights(name), rows(name, labels=("good", "bad", "so"))
    base = of_pretraining(name, w)
    write_folder(f"{folder}/hf", name, renamed(name, base, form), architectures=None, id2label=None)
    data = f"labelled:{labelled.write(f'{folder}/rows.jsonl', lines)}"
    said = gtrain("train", "--model", f"{folder}/hf", "--data", data, "--out", f"{folder}/run", *STILL)
    assert f"'{FAMILIES[name]['head'][2]}.weight' and 3 more start with random weights, because --model lacks them" in said, said
    saved = torch.load(f"{folder}/run/model.pth")
    kept = [key for key in base if key in w]
    assert sorted(saved) == sorted(w) and all(torch.equal(saved[key], w[key]) for key in kept)
    new = saved["head.dense.weight" if name == "modernbert" else f"{FAMILIES[name]['head'][0]}.weight"]
    assert 0.01 < float(new.std()) < 0.03, new.std()
    with open(f"{folder}/run/config.json") as f:
        assert json.load(f)["about"]["data"]["class-names"] == ["bad", "good", "so"]


@tap.cases(["lacks its head", "lacks its pooler", "lacks a layer", "other names", "another number of classes"])
def heads(folder, name):
    """Only the last layers of a network may be missing, and only in training."""
    w, lines = weights("bert"), rows("bert")
    data = f"labelled:{labelled.write(f'{folder}/rows.jsonl', lines)}"
    train = ["train", "--model", f"{folder}/hf", "--data", data, "--out", f"{folder}/run", *STILL]
    if name == "lacks its head":
        write_folder(f"{folder}/hf", "bert", of_pretraining("bert", w))
        assert "'classifier.weight' and 3 more start with random weights, because --model lacks them" in gtrain(*train)
        train[train.index(f"{folder}/run")] += "2"
        said = gtrain("eval", "--ckpt", f"{folder}/hf", "--data", data, status=1)
        assert "has no last layer: its network was trained for another task" in said, said
        for pattern, first in (("classifier.*", "classifier.weight"), ("bert.*", "bert.pooler.dense.weight")):
            said = gtrain(*train, "--freeze", pattern, status=2)
            assert f"--freeze matches '{first}', which starts with random weights, because --model lacks it" in said, said
        for more, first in (("", "bert.pooler.dense.weight"), (",train=classifier", "bert.pooler.dense.weight"), (",train=bert.pooler", "classifier.weight")):
            said = gtrain(*train, "--lora", f"r=2,targets=*query*{more}", status=2)
            assert f"--lora freezes '{first}', which starts with random weights" in said and "'train=bert.pooler|classifier' in --lora" in said, said
        said = gtrain(*train, "--lora", "r=2,train=classifier|no.layer", status=2)
        assert "--lora train: the model has no layer 'no.layer'" in said and "names of layers are like 'classifier'" in said, said
        said = gtrain(*train, "--lora", "r=2,targets=*query*,train=bert.pooler|classifier", "--freeze", "classifier.bias", status=2)
        assert "--freeze matches 'classifier.bias', which starts with random weights" in said, said
    elif name == "lacks its pooler":
        write_folder(f"{folder}/hf", "bert", {k: v for k, v in w.items() if "pooler" not in k})
        for labels in ((0, 1, 2), (0, 1, 2, 3)):
            labelled.write(f"{folder}/rows.jsonl", rows("bert", labels=labels))
            assert "2 keys are missing, the first is 'bert.pooler.dense.weight'" in gtrain(*train, status=1)
    elif name == "other names":
        write_folder(f"{folder}/hf", "bert", w, id2label={"0": "neg", "1": "neu", "2": "pos"})
        assert "random weights" not in gtrain(*train)  # numbers are the folder's classes, too
        assert evaluated("--ckpt", f"{folder}/hf", "--data", data) == evaluated("--ckpt", f"{folder}/run", "--data", data)
        labelled.write(f"{folder}/rows.jsonl", rows("bert", labels=("a", "b", "c")))
        train[train.index(f"{folder}/run")] += "2"
        said = gtrain(*train)
        assert "'classifier.weight' starts with random weights, because --data has 3 classes of other names" in said, said
    elif name == "lacks a layer":
        write_folder(f"{folder}/hf", "bert", {k: v for k, v in of_pretraining("bert", w).items() if not k.startswith("bert.encoder.layer.1.output.dense")})
        assert "2 keys are missing, the first is 'bert.encoder.layer.1.output.dense.weight'" in gtrain(*train, status=1)
    else:
        write_folder(f"{folder}/hf", "bert", w)
        labelled.write(f"{folder}/rows.jsonl", rows("bert", labels=(0, 1, 2, 3)))
        said = gtrain(*train)
        saved = torch.load(f"{folder}/run/model.pth")
        assert saved["classifier.weight"].shape[0] == 4 and "because --data has" in said, said


@tap.cases(FAMILIES)
def adapters(folder, name):
    """A run of adapters is evaluated and predicts, as does its adapter beside the folder."""
    write_folder(f"{folder}/hf", name, weights(name))
    data = f"labelled:{labelled.write(f'{folder}/rows.jsonl', rows(name))}"
    target = {"distilbert": "*q_lin", "modernbert": "*Wqkv"}.get(name, "*query")
    gtrain("train", "--model", f"{folder}/hf", "--data", data, "--lora", f"r=2,targets={target}", "--steps", 3, "--batch", 9, "--out", f"{folder}/run", *COMMON)
    run, beside = evaluated("--ckpt", f"{folder}/run", "--data", data), evaluated("--ckpt", f"{folder}/hf", "--lora", f"{folder}/run/adapter", "--data", data)
    assert run == beside != evaluated("--ckpt", f"{folder}/hf", "--data", data), (run, beside)
    labelled.told("predict", "--ckpt", f"{folder}/run", labelled.write(f"{folder}/plain.jsonl", [{"text": "ba be"}]))


def with_adapter(name, w, adapter, scale):
    """The weights to which B A is added: a layer then computes W x + scale * B A x."""
    out = {key: value.detach() for key, value in w.items()}
    for key, value in adapter.items():
        if ".lora_A." in key:
            layer = key.removeprefix("base_model.model.").replace(".lora_A.", ".")
            out[layer] = out[layer] + scale * adapter[key.replace("lora_A", "lora_B")] @ value
        elif ".lora_B." not in key:
            out[key.removeprefix("base_model.model.")] = value
    return out


def write_adapter(folder, name, w, target):
    """A folder as PEFT writes it, with A, B and the last layers, which PEFT calls modules_to_save."""
    g, adapter = torch.Generator().manual_seed(5), {}
    for key, value in w.items():
        if key.endswith(f".{target}.weight"):
            layer = "base_model.model." + key.removesuffix(".weight")
            adapter[f"{layer}.lora_A.weight"] = torch.randn(2, value.shape[1], generator=g) * 0.3
            adapter[f"{layer}.lora_B.weight"] = torch.randn(value.shape[0], 2, generator=g) * 0.3
        elif key.startswith((FAMILIES[name]["head"][0], FAMILIES[name]["head"][2])):
            adapter[f"base_model.model.{key}"] = value.detach().clone()
    os.makedirs(folder)
    torch.save(adapter, f"{folder}/adapter_model.bin")
    saved = {"bert": ["pooler.dense", "classifier"], "roberta": ["classifier", "score"], "distilbert": ["classifier", "score"], "modernbert": ["head", "classifier"]}[name]
    with open(f"{folder}/adapter_config.json", "w") as f:
        json.dump({"peft_type": "LORA", "task_type": "SEQ_CLS", "bias": "none", "lora_dropout": 0.0, "r": 2, "lora_alpha": 3, "target_modules": [target],
                   "modules_to_save": saved}, f)
    return {key: value.requires_grad_() for key, value in adapter.items()}


def trained_heads(folder):
    """Adapters with new last layers have PyTorch's curve in every mode; the run and its folders compute the same."""
    for name in FAMILIES:
        w, lines = weights(name), rows(name)
        target = {"distilbert": "q_lin", "modernbert": "Wqkv"}.get(name, "query")
        write_folder(f"{folder}/{name}", name, of_pretraining(name, w))
        start = write_adapter(f"{folder}/{name}-start", name, w, target)
        data = f"labelled:{labelled.write(f'{folder}/rows.jsonl', lines)}"
        x, y = samples(name, lines, ["text"], longest(name, lines, ["text"])), answers(lines)
        for i, (ranks, batch, more) in enumerate([MODES[0], MODES[3], *MODES[5:]]):
            adapter = {key: value.detach().clone().requires_grad_() for key, value in start.items()}
            opt, want, data_ranks = torch.optim.SGD(adapter.values(), lr=0.05, momentum=0.9), [], ranks if batch == 4 else 1
            for each in zip(*(mixup.batches(data_ranks, rank, batch, 0) for rank in range(data_ranks))):
                chosen = [k for part in each for k in part]
                loss = F.cross_entropy(network(name, with_adapter(name, w, adapter, 1.5), *(v[chosen] for v in x)), y[chosen])
                opt.zero_grad()
                loss.backward()
                opt.step()
                want.append({"loss": float(loss)})
            out = f"{folder}/{name}-{i}"
            gtrain("train", "--model", f"{folder}/{name}", "--lora", f"{folder}/{name}-start", "--data", data, "--epochs", 1, "--out", out, "--nproc", ranks,
                   "--batch", batch, *COMMON, *more)
            got, saved = curve(out), torch.load(f"{out}/model.pth")
            mine = {key if ".lora_" in key else f"base_model.model.{key}": value for key, value in saved.items()}
            off = max(float((mine[key] - adapter[key]).abs().max()) for key in adapter) if set(mine) == set(adapter) else 9
            yield f"{name}, {ranks} ranks {more}", "" if apart(got, want) <= BOUND and off <= 1e-5 else f"losses {apart(got, want):.1e}, weights {off:.1e}"
        want = loss_of(name, with_adapter(name, w, adapter, 1.5), lines, ["text"])
        gtrain("ckpt", "convert", out, "--to", "hf", "-o", f"{folder}/{name}-hf", "-q")
        gtrain("ckpt", "convert", out, "-o", f"{folder}/{name}.onnx", "-q")
        losses = [evaluated("--ckpt", out, "--data", data), evaluated("--ckpt", f"{folder}/{name}-hf", "--data", data),
                  evaluated("--ckpt", f"{folder}/{name}.onnx", "--model", f"{folder}/{name}.onnx", "--data", f"{data},tokenizer={folder}/{name}")]
        yield f"{name}: the run, and the folder and the ONNX file of it", "" if max(abs(got - want) for got in losses) < BOUND * want else f"{losses}, not {want}"
        again = gtrain("train", "--model", f"{folder}/{name}", "--lora", f"{out}/adapter", "--data", data, "--out", f"{out}-again", *STILL)
        got = evaluated("--ckpt", f"{out}-again", "--data", data)
        yield f"{name}: its adapter begins another run", "" if "random weights" not in again and got == losses[0] else f"{again} {got}"


@tap.cases(["arrays", "all hidden", "another length", "long texts"])
def given(folder, name):
    """Inputs as arrays; rows without a token have finite scores; a folder cuts texts to its positions."""
    w, lines = weights("bert"), rows("bert")
    write_folder(f"{folder}/hf", "bert", w)
    ids, mask, types = samples("bert", lines, ["text"], 16)
    evaluate = ["--ckpt", f"{folder}/hf", "--data", f"npz:{folder}/x.npz"]
    if name == "all hidden":
        mask[3] = 0
    if name == "another length":
        mask = mask[:, :5]
    np.savez(f"{folder}/x.npz", input_ids=ids, attention_mask=mask, token_type_ids=types, y=answers(lines).numpy())
    if name == "arrays":
        with torch.no_grad():
            want = float(F.cross_entropy(network("bert", w, ids, mask, types), answers(lines)))
        assert abs(evaluated(*evaluate) - want) < BOUND * want
    elif name == "all hidden":
        assert np.isfinite(evaluated(*evaluate))
    elif name == "another length":
        said = gtrain("eval", *evaluate, status=2)
        assert "texts of 16 tokens, but 'attention_mask' has the shape [5]" in said, said
    else:
        path = labelled.write(f"{folder}/long.jsonl", [{"text": "ba " * 60}, {"text": "be"}])
        whole, short = labelled.told("predict", "--ckpt", f"{folder}/hf", path), labelled.told("predict", "--ckpt", f"{folder}/hf", path, "--read", "block=9")
        assert len(whole.splitlines()) == len(short.splitlines()) == 2 and whole != short


def longer(folder):
    """A file of ONNX has the windows of ModernBERT for texts that are longer than those of the training, or is refused there."""
    python = os.environ.get("HF_PYTHON")
    if not python:
        yield "longer texts in ONNX", tap.Skip("onnxruntime: HF_PYTHON names a python that has it")
        return
    write_folder(f"{folder}/hf", "modernbert", weights("modernbert"))
    data = f"labelled:{labelled.write(f'{folder}/rows.jsonl', [{'text': 'ba', 'label': i} for i in range(3)])}"
    gtrain("train", "--model", f"{folder}/hf", "--data", data, "--out", f"{folder}/run", *STILL)
    gtrain("ckpt", "convert", f"{folder}/run", "-o", f"{folder}/net.onnx", "-q")
    ids = torch.randint(4, len(BERT_WORDS), (2, 20), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = network("modernbert", weights("modernbert"), ids, torch.ones_like(ids), None)
    code = """import json, sys, onnxruntime, numpy as np
x = np.array(json.load(sys.stdin))
s = onnxruntime.InferenceSession(sys.argv[1])
print(json.dumps(s.run(None, {"input_ids": x, "attention_mask": np.ones_like(x)})[0].tolist()))"""
    done = subprocess.run([python, "-c", code, f"{folder}/net.onnx"], input=json.dumps(ids.tolist()), capture_output=True, text=True)
    far = float((torch.tensor(json.loads(done.stdout)) - want).abs().max()) if not done.returncode else 0
    yield "longer texts in ONNX", "" if far < 1e-4 else f"off by {far}"


# ---- what is refused ----

REFUSED = {  # family, settings of config.json, what the message says
    "relu": ("bert", {"hidden_act": "relu"}, ["'hidden_act' is 'relu'"]),
    "relative positions": ("bert", {"position_embedding_type": "relative_key"}, ["position_embedding_type"]),
    "a decoder": ("bert", {"is_decoder": True}, ["'is_decoder' is true"]),
    "two dropouts": ("bert", {"hidden_dropout_prob": 0.2}, ["attention_probs_dropout_prob", "hidden_dropout_prob", "one setting"]),
    "another padding": ("roberta", {"pad_token_id": 0}, ["'pad_token_id' is 0"]),
    "positions of sines": ("distilbert", {"sinusoidal_pos_embds": True}, ["sinusoidal_pos_embds"]),
    "another task": ("bert", {"architectures": ["BertForTokenClassification"]}, ["BertForTokenClassification"]),
    "heads": ("bert", {"num_attention_heads": 3}, ["num_attention_heads", "divide"]),
    "scaled positions": ("modernbert", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, ["rope_scaling", "yarn"]),
    "a window of the first layer": ("modernbert", {"layer_types": ["chunked"] * 4}, ["layer_types"]),
}


@tap.cases(REFUSED)
def refused(folder, name):
    family, more, words = REFUSED[name]
    write_folder(f"{folder}/hf", family, weights(family), **more)
    labelled.refuse(folder, f"{folder}/hf", f"labelled:{labelled.write(f'{folder}/rows.jsonl', [labelled.ROW])}", 1, [f"'{folder}/hf/config.json'", *words])


@tap.cases(["long texts", "numbers", "a text", "a tokenizer of two files"])
def data(folder, name):
    write_folder(f"{folder}/hf", "bert", weights("bert"))
    if name == "long texts":
        path = labelled.write(f"{folder}/rows.jsonl", [{"text": "ba " * 40, "label": 1}])
        labelled.refuse(folder, f"{folder}/hf", f"labelled:{path},block=40", 2, ["texts of 40 tokens", "a BERT has 32 positions", "block=32"])
        said = gtrain("train", "--model", f"{folder}/hf", "--data", f"labelled:{path}", "--steps", 1, "--out", f"{folder}/run", *COMMON)
        assert "cut after 32 tokens: 1 of 1 texts" in said, said
    elif name == "a tokenizer of two files":
        os.remove(f"{folder}/hf/tokenizer.json")
        with open(f"{folder}/hf/vocab.json", "w") as vocab, open(f"{folder}/hf/merges.txt", "w") as merges:
            json.dump({chr(c): i for i, c in enumerate(range(0x21, 0x7f))}, vocab)
            merges.write("#version: 0.2\n")
        path = labelled.write(f"{folder}/rows.jsonl", [labelled.ROW])
        labelled.refuse(folder, f"{folder}/hf", f"labelled:{path}", 1, ["do not say which special tokens", "save_pretrained"])
    elif name == "numbers":
        labelled.refuse(folder, "bert", "random:8/3", 2, ["a BERT takes texts with a class each", "labelled:"])
    else:
        with open(f"{folder}/t.txt", "w") as f:
            f.write("ba be bi" * 100)
        labelled.refuse(folder, f"{folder}/hf", f"text:{folder}/t.txt", 2, ["the data are text, but the model was trained on texts with a class each"])


# ---- transformers ----

HF = """
import json, sys
import torch
import transformers
folder, name, back = sys.argv[1:]
lines = [json.loads(line) for line in open(folder + "/rows.jsonl")]
config = transformers.AutoConfig.for_model(name, **json.load(open(folder + "/settings.json")))
cls = transformers.AutoModelForSequenceClassification
tok = transformers.PreTrainedTokenizerFast(tokenizer_file=folder + "/tokenizer.json", pad_token="<pad>" if name == "roberta" else "[PAD]")
x = tok([line["text"] for line in lines], [line["other"] for line in lines], padding=True, return_tensors="pt", return_token_type_ids=name == "bert")
y = torch.tensor([line["label"] for line in lines])
if back:
    net, info = cls.from_pretrained(back, output_loading_info=True, local_files_only=True)
    wrong = {k: list(v) for k, v in info.items() if v}
    with torch.no_grad():
        cut = transformers.AutoTokenizer.from_pretrained(back, local_files_only=True)("ba " * 99, truncation=True, return_tensors="pt")
        net.eval()(**cut)
        print(json.dumps([wrong, float(torch.nn.functional.cross_entropy(net.eval()(**x).logits, y))]))
else:
    torch.manual_seed(1)
    net = cls.from_config(config)
    for p in net.parameters():
        p.data.add_(torch.randn_like(p) * 0.05)
    net.save_pretrained(folder + "/hf")
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(net(**x).logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(float(loss))
"""


def transformers(folder):
    """The classes of transformers have the curve of their folders, and open what was trained."""
    python = os.environ.get("HF_PYTHON")
    for name, f in FAMILIES.items():
        label, at = f"{name} of transformers", f"{folder}/{name}"
        if not python:
            yield label, tap.Skip("transformers: HF_PYTHON names a python that has it")
            continue
        os.makedirs(at)
        write_tokenizer(at, name)
        labelled.write(f"{at}/rows.jsonl", labelled.rows())
        with open(f"{at}/settings.json", "w") as out:
            json.dump({**f["config"], "num_labels": CLASSES}, out)
        run = lambda back: subprocess.run([python, "-c", HF, at, name, back], capture_output=True, text=True)  # noqa: E731
        done = run("")
        if done.returncode:
            yield label, done.stderr
            continue
        write_tokenizer(f"{at}/hf", name)
        spec = f"labelled:{at}/rows.jsonl,second=other"
        gtrain("train", "--model", f"{at}/hf", "--data", spec, "--steps", 20, "--batch", mixup.SAMPLES, "--out", f"{at}/run", *COMMON)
        far = apart(curve(f"{at}/run"), [{"loss": float(line)} for line in done.stdout.split()])
        yield label, "" if far <= BOUND else f"losses {far:.1e}"
        gtrain("ckpt", "convert", f"{at}/run", "--to", "hf", "-o", f"{at}/back", "-q")
        back = run(f"{at}/back")
        wrong, loss = json.loads(back.stdout) if not back.returncode else (back.stderr, 0)
        own = evaluated("--ckpt", f"{at}/run", "--data", spec)
        yield f"{label}: what was trained", "" if not wrong and abs(loss - own) < BOUND * own else f"{wrong} {loss} {own}"


if __name__ == "__main__":
    sys.exit(tap.run([training, trained_heads, transformers, longer, *tap.parts], GTRAIN, sys.argv[1:]))
