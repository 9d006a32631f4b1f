#!/usr/bin/python3
"""
tasks.py - eval --task: published tests of language models, beside transformers (TAP).

The documents are made up. transformers' numbers come from a small random GPT-2 whose log-likelihoods are added up as
lm-evaluation-harness does; HF_PYTHON names a python that has the packages transformers and tokenizers. Without them, one task is held
to another: a continuation is as likely as the whole text, divided by its context.
"""
import json
import math
import os
import re
import subprocess
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common")
import tap

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
try:
    import torch
    import transformers
    import tokenizers
except ImportError:
    other = os.environ.pop("HF_PYTHON", None)
    if other:
        os.execv(other, [other, *sys.argv])
    transformers = None

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
BLOCK = 48
CONTEXT = "[header] How to peel an egg [title] Boil it. [step] Put the egg  into water, for ten minutes"
ENDINGS = ["and cool it [substeps] under cold water.", "then, throw it  away.", " eat the shell ", "and wait — für immer."]
DOCUMENTS = [
    {"activity_label": "Food", "ctx_a": CONTEXT, "ctx_b": "the Egg is done", "endings": ENDINGS, "label": 0},
    {"activity_label": "Food and Entertaining", "ctx_a": "A man [laughs\nloudly] sits.", "ctx_b": "", "endings": ENDINGS[::-1], "label": "2"},
    {"activity_label": "Sport", "ctx_a": "Élan " * 12 + "[a][b]", "ctx_b": "éTÉ Comes", "endings": ["x" * 3, "a longer ending " * 9, "no", "yes, [title] it is"], "label": 1},
    {"activity_label": "Sport", "ctx_a": "\u2003She runs", "ctx_b": "i", "endings": ["fast", "fast", "slow", "fast"], "label": 3},
]
TEXTS = ["The cat sat on the mat", "He said: \"I do not know  him\"", "one", "word " * 30 + "end", "a trailing space ", "The 3 eggs are in the red box, für immer.", "The 4 eggs are in the blue"]
LONG = "".join(f"The {n} eggs are in the {c} box, für immer.\n" for n, c in zip(range(40), ["red", "blue", "green"] * 14))


def write_lines(path, documents):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(d, ensure_ascii=i % 2 > 0) + "\n" for i, d in enumerate(documents))
        f.write(" \n")


def make(folder):
    write_lines(f"{folder}/hellaswag.jsonl", DOCUMENTS)
    write_lines(f"{folder}/lambada.jsonl", [{"text": t} for t in TEXTS])
    write_lines(f"{folder}/texts.jsonl", [{"text": LONG}, {"page": TEXTS[0]}])
    with open(f"{folder}/long.txt", "w", encoding="utf-8") as f:
        f.write(LONG)


def gtrain(folder, *args):
    done = subprocess.run([GTRAIN, *args], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{args}: {done.stderr}")
    return done.stdout


def measure(folder, task, file, *more, ckpt="model"):
    return json.loads(gtrain(folder, "eval", "--ckpt", ckpt, "--task", task, "--data", file, "--threads", "1", "-q", "--json", *more))


def compare(found, expected):
    bad = [f"{k}: {found.get(k)}, expected {v}" for k, v in expected.items() if not math.isclose(found.get(k, math.nan), v, rel_tol=1e-5, abs_tol=1e-9)]
    return "\n".join(bad)


# ---- as lm-evaluation-harness defines it ----

def clean(text):
    return re.sub("\\[.*?\\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def share(name, right):
    mean = sum(right) / len(right)
    return {name: mean, f"{name}_stderr": math.sqrt(sum((r - mean) ** 2 for r in right) / (len(right) - 1) / len(right))}


def score_pair(score, encode, first, context, more):
    """The log-likelihood of a continuation, and whether a greedy choice writes it."""
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, more = context[:-spaces], context[-spaces:] + more
    if not context:
        return score([first], encode(more))
    ids = encode(context)
    return score(ids, encode(context + more)[len(ids):])


def expect_hellaswag(score, encode, first):
    right, right_norm = [], []
    for d in DOCUMENTS:
        question = clean(d["activity_label"] + ": " + d["ctx_a"] + " " + d["ctx_b"].capitalize())
        endings = [clean(e) for e in d["endings"]]
        values = [score_pair(score, encode, first, question, " " + e)[0] for e in endings]
        norm = [v / len(e) for v, e in zip(values, endings)]
        right.append(values.index(max(values)) == int(d["label"]))
        right_norm.append(norm.index(max(norm)) == int(d["label"]))
    return {"documents": len(DOCUMENTS)} | share("acc", right) | share("acc_norm", right_norm)


def expect_lambada(score, encode, first):
    found = [score_pair(score, encode, first, " ".join(t.split(" ")[:-1]), " " + t.split(" ")[-1]) for t in TEXTS]
    return {"documents": len(TEXTS), "perplexity": math.exp(-sum(v for v, _ in found) / len(found))} | share("acc", [g for _, g in found])


def expect_texts(score, encode, first, texts):
    total = 0
    for text in texts:
        ids = encode(text)
        done = min(BLOCK, len(ids))
        total += score([first], ids[:done])[0]
        while done < len(ids):
            n = min(BLOCK, len(ids) - done)
            total += score(ids[done + n - BLOCK - 1:done], ids[done:done + n])[0]
            done += n
    size, words = sum(len(t.encode()) for t in texts), sum(len(re.split(r"\s+", t)) for t in texts)
    return {"documents": len(texts), "bits_per_byte": -total / size / math.log(2), "byte_perplexity": math.exp(-total / size),
            "word_perplexity": math.exp(-total / words)}


def save_gpt2(folder):
    """A random GPT-2 that is sure enough of a few tokens, so that greedy choices are right at times."""
    end = "<|endoftext|>"
    fast = tokenizers.ByteLevelBPETokenizer()
    fast.train_from_iterator([LONG * 3, *TEXTS, CONTEXT, *ENDINGS], vocab_size=330, special_tokens=[end], show_progress=False)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=fast._tokenizer, bos_token=end, eos_token=end)
    tokenizer.save_pretrained(f"{folder}/model")
    torch.manual_seed(1)
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, n_positions=BLOCK, vocab_size=len(tokenizer), bos_token_id=tokenizer.bos_token_id,
                                     eos_token_id=tokenizer.eos_token_id)
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    ids = torch.tensor(tokenizer.encode(LONG + "\n".join(TEXTS)))
    for i in range(60):
        at = i * 13 % (len(ids) - BLOCK)
        model(ids[None, at:at + BLOCK], labels=ids[None, at:at + BLOCK]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval().save_pretrained(f"{folder}/model")
    return model, tokenizer


def beside_transformers(folder):
    if not transformers:
        yield "beside transformers", tap.Skip("no such package; HF_PYTHON names a python that has it")
        return
    make(folder)
    model, tokenizer = save_gpt2(folder)

    @torch.no_grad()
    def score(context, more):
        ids = (context + more)[-(BLOCK + 1):]
        found = model(torch.tensor([ids[:-1]])).logits[0].double().log_softmax(-1)[-len(more):]
        more = torch.tensor(more[-len(found):])
        return found.gather(1, more[:, None]).sum().item(), bool((found.argmax(-1) == more).all())

    how = (score, lambda text: tokenizer.encode(text, add_special_tokens=False), tokenizer.bos_token_id)
    expected = {"hellaswag.jsonl": ("hellaswag", expect_hellaswag(*how)), "lambada.jsonl": ("lambada", expect_lambada(*how)),
                "long.txt": ("bits-per-byte", expect_texts(*how, [LONG])), "texts.jsonl": ("bits-per-byte", expect_texts(*how, [LONG, TEXTS[0]]))}
    for file, (task, scores) in expected.items():
        found = measure(folder, task, file)
        yield f"{task} of {file}", compare(found, scores)
        yield f"{task} of {file}, 2 ranks", "" if measure(folder, task, file, "--nproc", "2") == found else "other scores"
    yield "some last words are right, not all", "" if 0 < expected["lambada.jsonl"][1]["acc"] < 1 else str(expected)


# ---- one task beside another ----

def beside_each_other(folder):
    """Tokens are bytes, so a text has the tokens of its parts."""
    make(folder)
    gtrain(folder, "train", "--model", "gpt:layers=1,width=16,heads=2,block=256", "--data", "text:long.txt,level=byte", "--steps", "8", "--batch", "4",
           "--lr", "0.01", "--threads", "1", "-q", "--out", "run")

    known = {}

    def total(text):
        """The log-likelihood of a text after its first byte."""
        if text not in known:
            with open(f"{folder}/one.txt", "w", encoding="utf-8") as f:
                f.write(text)
            known[text] = -measure(folder, "bits-per-byte", "one.txt", ckpt="run")["bits_per_byte"] * len(text.encode()) * math.log(2)
        return known[text]

    def score(context, more):
        return total(context + more) - (total(context) if len(context.encode()) > 1 else 0)

    text = ("The eggs are blue. " * 20)[:257]  # a block, and the token after it
    found = total(text)
    loss = json.loads(gtrain(folder, "eval", "--ckpt", "run", "--data", "text:one.txt", "--threads", "1", "-q", "--json"))["loss"]
    yield "bits per byte are those of the loss", compare({"total": found}, {"total": -loss * 256})
    right = []
    for d in DOCUMENTS[:2]:
        question = clean(d["activity_label"] + ": " + d["ctx_a"] + " " + d["ctx_b"].capitalize())
        values = [score(question, " " + clean(e)) / len(clean(e)) for e in d["endings"]]
        right.append(values.index(max(values)) == int(d["label"]))
    write_lines(f"{folder}/two.jsonl", DOCUMENTS[:2])
    yield "hellaswag", compare(measure(folder, "hellaswag", "two.jsonl", ckpt="run"), share("acc_norm", right))
    texts = TEXTS[:2]
    write_lines(f"{folder}/two.jsonl", [{"text": t} for t in texts])
    values = [score(t[:t.rindex(" ")].rstrip(), t[len(t[:t.rindex(" ")].rstrip()):]) for t in texts]
    yield "lambada", compare(measure(folder, "lambada", "two.jsonl", ckpt="run"), {"perplexity": math.exp(-sum(values) / 2)})
    text = gtrain(folder, "eval", "--ckpt", "run", "--task", "lambada", "--data", "two.jsonl", "--threads", "1", "-q")
    yield "scores as text", "" if re.fullmatch(r"acc [01]\.\d{6} \+- 0\.\d{6}  perplexity \d+\.\d{6}  documents 2\n", text) else text


WRONG = {  # task, lines, words of the error
    "no text": ("lambada", '{"txt": "a b"}', "line 1: no text 'text'"),
    "no JSON": ("lambada", '{"text": "a b"}\nx', "line 2: not an object of JSON"),
    "no lines": ("lambada", "\n", "the file has no lines"),
    "no context": ("lambada", '{"text": "a"}', "line 1: there is no text before the continuation"),
    "a wrong label": ("hellaswag", json.dumps(DOCUMENTS[0] | {"label": 4}), "line 1: no 'label' that is the number of one of the 'endings'"),
    "no endings": ("hellaswag", json.dumps({**DOCUMENTS[0], "endings": []}), "line 1: no 'label'"),
    "no ctx_b": ("hellaswag", json.dumps({k: v for k, v in DOCUMENTS[0].items() if k != "ctx_b"}), "no text 'ctx_b'"),
    "an empty text": ("bits-per-byte", "", "the text is too short"),
    "images": ("lambada", '{"text": "a b"}', "--task is for language models"),
}


def wrong_files(folder):
    make(folder)
    small = ["--steps", "1", "--batch", "2", "--threads", "1", "-q"]
    gtrain(folder, "train", "--model", "gpt:layers=1,width=8,heads=1,block=256", "--data", "text:long.txt,level=byte", *small, "--out", "run")
    gtrain(folder, "train", "--model", "mlp:4,2", "--data", "random:4/2", *small, "--out", "other")
    for name, (task, lines, words) in WRONG.items():
        with open(f"{folder}/file", "w", encoding="utf-8") as f:
            f.write(lines)
        args = [GTRAIN, "eval", "--ckpt", "other" if name == "images" else "run", "--task", task, "--data", "file", "--threads", "1", "-q"]
        done = subprocess.run(args, cwd=folder, capture_output=True, text=True, check=False)
        yield f"refused: {name}", "" if done.returncode in (1, 2) and words in done.stderr and not done.stdout else done.stderr + done.stdout
    done = subprocess.run([*args, "--per-class"], cwd=folder, capture_output=True, text=True, check=False)
    yield "--per-class is of no task", "" if done.returncode == 2 and "--per-class" in done.stderr else done.stderr


if __name__ == "__main__":
    sys.exit(tap.run([beside_each_other, wrong_files, beside_transformers], GTRAIN, sys.argv[1:]))
