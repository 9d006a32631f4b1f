"""generate.py - text that gtrain writes beside PyTorch's: whole windows in float64, transformers' rules for drawing.

With weights in 16 bits or in blocks of llama.cpp (--dtype), PyTorch has the weights that NumPy decodes from the same blocks.

PyTorch computes the whole window for each token, gtrain with cached keys and values while the text fits into the block.
Both draw token i by the same uniform number, Philox (seed, stream, i), so that the texts are the same letter by letter.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "common")]

import tap  # noqa: E402
from models import GPT, Llama, torch  # noqa: E402: it skips where there is no torch
from philox import philox  # noqa: E402

import numpy as np  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
TEXT = "the quick brown fox jumps over the lazy dog, and goes on; pack my box with five dozen liquor jugs. " * 8
GENERATE = 0x40000005  # GT_RNG_GENERATE of lib/base/philox.h
TOKENS = 24
BLOCK = 16

MODELS = [
    ("gpt", {"layers": 2, "heads": 2, "width": 32}),
    ("gpt", {"layers": 1, "heads": 3, "width": 48, "bias": "no", "gelu": "erf"}),
    ("gpt2", {"layers": 2, "heads": 4, "width": 64, "vocab": 40}),
    ("llama", {"layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "hidden": 48, "theta": 10000}),
    ("llama", {"layers": 1, "heads": 3, "kv_heads": 1, "width": 48, "hidden": 40, "theta": 300, "tied": "yes"}),
]
PROMPTS = ["q", "pack my", "the quick brown", "he quick brown f", "jumps over the lazy dog, and"]
OPTIONS = [
    {"temperature": 0},
    {"temperature": 1, "seed": 1},
    {"temperature": 0.7, "top-k": 3, "seed": 2},
    {"temperature": 1, "top-p": 0.8, "seed": 3},
    {"temperature": 1.6, "top-k": 9, "top-p": 0.6, "seed": 4},
    {"temperature": 2, "top-p": 0.97, "seed": 5},
    {"temperature": 1, "top-p": 0, "seed": 6},
]


def gtrain(*arguments):
    return subprocess.run([GTRAIN, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def warp(logits, temperature, top_k, top_p):
    """TemperatureLogitsWarper, TopKLogitsWarper and TopPLogitsWarper of transformers 4.30, in this order."""
    scores = logits / temperature
    if top_k:
        scores = scores.masked_fill(scores < torch.topk(scores, min(top_k, len(scores)))[0][-1], float("-inf"))
    if top_p < 1:
        ascending, indices = torch.sort(scores, descending=False)
        remove = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
        remove[-1:] = False
        scores = scores.masked_fill(remove.scatter(0, indices, remove), float("-inf"))
    return scores


def decoded(rows, dtype):
    """float32 rows, as they are after they were stored in a type; float16 where they are not whole blocks."""
    if dtype == "bf16":
        return torch.from_numpy(rows).bfloat16().float().numpy()
    if dtype == "fp16" or rows.shape[1] % 32:
        return rows.astype("<f2").astype("<f4")
    blocks = rows.reshape(-1, 32)
    furthest = np.take_along_axis(blocks, abs(blocks).argmax(1)[:, None], 1)
    scale = abs(furthest) / np.float32(127) if dtype == "q8_0" else furthest / np.float32(-8)
    inverse = np.where(scale != 0, np.float32(1) / np.where(scale != 0, scale, 1), 0).astype("<f4")
    if dtype == "q8_0":
        numbers = np.sign(blocks) * np.floor(abs(blocks * inverse) + np.float32(0.5))
    else:
        numbers = np.minimum(np.floor(blocks * inverse + np.float32(8.5)), 15) - 8
    return (scale.astype("<f2").astype("<f4") * numbers).astype("<f4").reshape(rows.shape)


def stored(state, dtype):
    """The weights as gtrain keeps them: blocks lie along the features that a product adds up. Conv1D has them first."""
    changed = {}
    for name, weight in state.items():
        rows = weight.float().numpy()
        if rows.ndim == 2 and "wpe" not in name:
            rows = decoded(np.ascontiguousarray(rows.T), dtype).T if ".h." in name else decoded(rows, dtype)
        changed[name] = torch.from_numpy(np.ascontiguousarray(rows))
    return changed


def draw(logits, options, number):
    if options["temperature"] == 0:
        return int(logits.argmax())
    p = warp(logits, options["temperature"], options.get("top-k", 0), options.get("top-p", 1)).softmax(-1)
    words = philox(options["seed"], np.array([[number, 0, GENERATE, 0]], dtype=np.uint64))[0]
    uniform = ((int(words[1]) << 32 | int(words[0])) >> 11) * 2.0 ** -53
    return int((p.cumsum(-1) > uniform).nonzero()[0])


def written(net, vocab, prompt, options):
    ids = [vocab.index(c) for c in prompt]
    with torch.no_grad():
        for number in range(TOKENS):
            ids.append(draw(net(torch.tensor([ids[-BLOCK:]]))[0, -1], options, number))
    return "".join(vocab[i] if i < len(vocab) else "" for i in ids)


def llama(state, keys):
    tied = keys.get("tied") == "yes"
    net = Llama(keys["layers"], keys["heads"], keys["kv_heads"], keys["width"], keys["hidden"],
                len(state["model.embed_tokens.weight"]), keys["theta"], tied=tied)
    missing = net.load_state_dict(state, strict=False)
    assert not missing.missing_keys and missing.unexpected_keys == ["lm_head.weight"] * tied, missing
    return net.double()


def network(name, state, keys):
    if name == "llama":
        return llama(state, keys)
    net = GPT(keys["layers"], keys["heads"], keys["width"], BLOCK, len(state["transformer.wte.weight"]),
              keys.get("bias", "yes") == "yes", {"erf": "none"}.get(keys.get("gelu"), "tanh"))
    missing = net.load_state_dict(state, strict=False)
    assert not missing.missing_keys and missing.unexpected_keys == ["lm_head.weight"], missing
    return net.double()


def follows(folder, run, net, vocab, more=()):
    """The tokens after each prompt, all of them with their probabilities, which predict prints."""
    with open(f"{folder}/prompts.txt", "w") as file:
        file.write("\n".join(PROMPTS) + "\n")
    said = json.loads(gtrain("predict", "--ckpt", run, "--json", "--top", 1000, "--threads", 1, *more, f"{folder}/prompts.txt"))
    wrong = []
    for prompt, answer in zip(PROMPTS, said["predictions"]):
        with torch.no_grad():
            p = net(torch.tensor([[vocab.index(c) for c in prompt][-BLOCK:]]))[0, -1].softmax(-1)
        ours = {row["class"]: row["probability"] for row in answer["classes"]}
        order = [row["probability"] for row in answer["classes"]]
        # Tokens beyond the vocabulary, which a model may have, have no answer of their own.
        far = max(abs(ours[name] - float(p[i])) for i, name in enumerate(vocab) if name in ours or len(p) == len(vocab))
        if far > 2e-6 or order != sorted(order, reverse=True) or len(ours) != len(vocab) or not answer["input"].startswith(folder):
            wrong.append(f"{prompt!r}: {far}, {len(ours)} tokens")
    return "\n".join(wrong) if len(said["predictions"]) == len(PROMPTS) else f"{len(said['predictions'])} answers"


def texts(folder):
    with open(f"{folder}/text.txt", "w") as file:
        file.write(TEXT)
    for number, (name, keys) in enumerate(MODELS):
        model = f"{name}:block={BLOCK}," + ",".join(f"{k}={v}" for k, v in keys.items())
        run = f"{folder}/run{number}"
        gtrain("train", "--model", model, "--data", f"text:{folder}/text.txt", "--steps", 60, "--batch", 8, "--lr", "5e-3",
               "--out", run, "-q", "--threads", 1)
        net = network(name, torch.load(f"{run}/model.pth"), keys)
        with open(f"{run}/vocab.json") as file:
            vocab = json.load(file)["tokens"]
        for dtype in tap.one_in(2, ["bf16", "q8_0", "q4_0", "fp16"], number):
            quantized = network(name, stored(torch.load(f"{run}/model.pth"), dtype), keys)
            wrong = []
            for prompt in PROMPTS[1:3]:
                ours = json.loads(gtrain("generate", "--ckpt", run, "--prompt", prompt, "--tokens", TOKENS, "--json", "--threads", 1,
                                         "--temperature", 0, "--dtype", dtype))["text"]
                theirs = written(quantized, vocab, prompt, {"temperature": 0})
                if ours != theirs:
                    wrong.append(f"{ours!r}, PyTorch {theirs!r}")
            yield f"{model} --dtype {dtype}", "\n".join(wrong)
        yield f"{model}: the token after each line", follows(folder, run, net, vocab)
        yield f"{model}: the same in batches of two, by two ranks", follows(folder, run, net, vocab, ("--batch", 2, "--nproc", 2))
        for options in tap.one_in(2, OPTIONS, number):
            wrong = []
            for prompt in PROMPTS:
                given = [word for key, value in options.items() for word in (f"--{key}", value)]
                ours = json.loads(gtrain("generate", "--ckpt", run, "--prompt", prompt, "--tokens", TOKENS, "--json",
                                         "--threads", 1, *given))["text"]
                theirs = written(net, vocab, prompt, options)
                if ours != theirs:
                    wrong.append(f"{ours!r}, PyTorch {theirs!r}")
            yield f"{model} {' '.join(f'{k}={v}' for k, v in options.items())}", "\n".join(wrong)
    yield from out_of_range(folder, MODELS[0])


def out_of_range(folder, model):
    """A weight that a type stores as infinite is refused by name, and so is NaN, which quantized types do not have."""
    name, keys = model
    weight, state = "transformer.h.1.mlp.c_proj.weight", torch.load(f"{folder}/run0/model.pth")
    for dtype, number, said in (("fp16", -65520, "a number of size 65520, beyond the range of fp16"), ("q8_0", 8321040, "a number of size 8.32104e+06, beyond"),
                                ("q4_0", 1e30, "a number of size 1e+30, beyond"), ("q8_0", float("nan"), "nan")):
        state[weight][0, 0] = number
        torch.save(state, f"{folder}/far.pth")
        done = subprocess.run([GTRAIN, "generate", "--ckpt", f"{folder}/far.pth", "--vocab", f"{folder}/run0/vocab.json", "--dtype", dtype, "--model",
                               f"{name}:block={BLOCK}," + ",".join(f"{k}={v}" for k, v in keys.items())], capture_output=True, text=True)
        yield f"{number} with --dtype {dtype}", "" if done.returncode == 1 and not done.stdout and f"tensor '{weight}' holds {said}" in done.stderr else done.stderr


if __name__ == "__main__":
    sys.exit(tap.run([texts], GTRAIN))
