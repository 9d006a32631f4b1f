#!/usr/bin/python3
"""
chat.py - conversations: which tokens are trained on, and PyTorch's loss and curve on them (TAP).

The tokenizer has a token for each byte and some special ones, so that a few lines of Python say what each sample is.
"""
import json
import os
import re
import signal
import struct
import subprocess
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common")
import tap  # noqa: E402
from chat_files import IGNORE, SPECIALS, TEMPLATE, encode, make, messages, sample, turns  # noqa: E402
from training import COMMON, GTRAIN, TESTS, apart, curve, gtrain, torch  # noqa: E402

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402

DUMP = os.path.join(TESTS, "data_dump")
MARKED = """{% for m in messages %}<|start|>{{ m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}
{% else %}{{ m.content }}<|end|>{% endif %}{{ '\\n' }}{% endfor %}"""
# The last message has another end, and an answer before it no more.
LAST = TEMPLATE.replace("{% if add", "{% if not add_generation_prompt %}</s>{% endif %}{% if add")
FORGETS = "{% for m in messages %}{{ m.role[0] + ('!' if loop.last and m.role[0] == 'a' else '') + m.content }}{% endfor %}{{ 'a' if add_generation_prompt }}"
TALK = [("user", "1+1?"), ("assistant", "2"), ("user", "\u00e9\n"), ("assistant", " \n yes <|end|>!"), ("user", "bye")]


def dump(spec):
    done = subprocess.run([DUMP, spec], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    block = int(done.stderr.split()[6])
    numbers = struct.unpack("<%di" % (len(done.stdout) // 4), done.stdout)
    rows = [list(numbers[i:i + block]) for i in range(0, len(numbers), block)]
    return block, list(zip(rows[::2], rows[1::2]))


def check_samples(spec, *samples):
    block, found = dump(spec)
    assert block == max(len([i for text, _ in pieces for i in encode(text)]) - 1 for pieces in samples), block
    assert found == [sample(pieces, block) for pieces in samples], f"{found}\nnot\n{[sample(pieces, block) for pieces in samples]}"


def share(talk):
    return [{"from": {"user": "human", "assistant": "gpt"}[role], "value": content} for role, content in talk]


@tap.cases(["OpenAI", "ShareGPT", "prompt and completion", "lists of messages"])
def forms(folder, name):
    answered = TALK[:4]
    if name == "OpenAI":
        check_samples(make(folder, [{"messages": messages(TALK)}, {"messages": messages(TALK[:2]), "tools": None}]),
                      list(turns(answered)), list(turns(TALK[:2])))
    elif name == "ShareGPT":
        check_samples(make(folder, [{"conversations": share(TALK)}, {"conversations": share(TALK[:2]), "system": "s"}]),
                      list(turns(answered)), list(turns([("system", "s"), *TALK[:2]])))
    elif name == "prompt and completion":
        check_samples(make(folder, [{"prompt": "a", "completion": "b"}]), list(turns([("user", "a"), ("assistant", "b")])))
    else:
        check_samples(make(folder, [{"prompt": messages(TALK[:3]), "completion": messages(TALK[3:4])}]),
                      [*turns(TALK[:3], ()), *turns(TALK[3:4])])


@tap.cases(["last", "each", "marked", "an end behind the last message", "forgets", "forgets: each"])
def answers(folder, name):
    row = [{"messages": messages(TALK)}]
    if name == "last":
        check_samples(make(folder, row) + ",answers=last", [*turns(TALK[:3], ()), *turns(TALK[3:4])])
    elif name == "each":
        check_samples(make(folder, row) + ",answers=each", list(turns(TALK[:2])), [*turns(TALK[:3], ()), *turns(TALK[3:4])])
    elif name == "marked":
        check_samples(make(folder, row, MARKED), [part for role, content in TALK[:4] for part in (
            (f"<|start|>{role}\n", False), (f"{content}<|end|>", role == "assistant"), ("\n", False))])
    elif name == "an end behind the last message":
        check_samples(make(folder, row, LAST), [*turns(TALK[:4]), ("</s>", True)])
    elif name == "forgets":
        done = subprocess.run([DUMP, make(folder, row, FORGETS)], capture_output=True, text=True, timeout=60)
        assert done.returncode and "before message 2 in another way" in done.stderr and "answers=each" in done.stderr, done.stderr
    else:
        check_samples(make(folder, row, FORGETS) + ",answers=each", [("u1+1?a", False), ("!2", True)],
                      [("u1+1?a2u\u00e9\na", False), ("! \n yes <|end|>!", True)])


@tap.cases(["with the tokenizer's end", "with another end and field", "bytes"])
def texts(folder, name):
    """Rows are the text that they make together."""
    make(folder, [])
    rows = ["row %d \u00e9\n" % i for i in range(30)]
    with open(f"{folder}/rows.jsonl", "w") as f:
        f.write("".join(json.dumps({"text": row, "body": row * 2}) + "\n" for row in rows))
    tok, more, end, times = {"with the tokenizer's end": (f",tokenizer={folder}/tok", "", "</s>", 1),
                             "with another end and field": (f",tokenizer={folder}/tok", ",end=<|end|>!,field=body", "<|end|>!", 2),
                             "bytes": (",level=byte", "", "\n", 1)}[name]
    with open(f"{folder}/joined.txt", "w") as f:
        f.write("".join(row * times + end for row in rows))
    found, wanted = dump(f"jsonl:{folder}/rows.jsonl{tok}{more}"), dump(f"text:{folder}/joined.txt{tok}")
    assert found == wanted and len(found[1]) > 3, (found, wanted)


def talks(count, shift=0):
    return [{"messages": messages([("user", "%d+%d?" % (i + shift, i)), ("assistant", "%d" % (2 * i + shift)), ("user", "so"), ("assistant", "yes" * (i % 4))])}
            for i in range(count)]


BLOCK = 64


def short_talks():
    """Conversations of one and of two turns, which make 16 rows of BLOCK tokens."""
    talks_of = [[("user", "%d+%d?" % (i, i)), ("assistant", "%d" % (2 * i)), ("user", "so"), ("assistant", "yes" * (i % 4))] for i in range(24)]
    return [{"messages": messages(talk[:2 + i % 3 // 2 * 2])} for i, talk in enumerate(talks_of)]


def dump_rows(spec):
    """The documents of each row of packed data: tokens and targets. Padding is left out."""
    done = subprocess.run([DUMP, spec + ",pack=yes"], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    count, block = (int(done.stderr.split()[k]) for k in (1, 6))
    numbers = struct.unpack("<%di" % (3 * count * block), done.stdout)
    rows = []
    for at in range(0, len(numbers), 3 * block):
        ids, places, targets = (numbers[at + k * block:at + (k + 1) * block] for k in range(3))
        begins = [i for i, place in enumerate(places) if place == 0] + [block]
        assert list(places) == [i - max(b for b in begins if b <= i) for i in range(block)], places
        documents = [(list(ids[a:b]), list(targets[a:b])) for a, b in zip(begins, begins[1:])]
        rows.append([d for d in documents if d != ([0], [IGNORE])])
    return block, rows


@tap.cases(["rows", "cut"])
def packed(folder, name):
    """Each conversation is in one row, as it is in a sample of its own."""
    spec = make(folder, short_talks() if name == "rows" else [{"messages": messages([("user", "u"), ("assistant", "a" * 80)])}] * 3 + short_talks()[:4])
    alone_block, alone = dump(spec)
    block, rows = dump_rows(spec)

    def up_to_last_target(documents):
        documents = list(documents)
        ends = [max(i for i, t in enumerate(targets) if t != IGNORE) + 1 for _, targets in documents]
        return sorted((list(ids[:end]), list(targets[:end])) for (ids, targets), end in zip(documents, ends))
    assert up_to_last_target(d for row in rows for d in row) == up_to_last_target(alone), f"{rows}\nnot\n{alone}"
    assert len(rows) < len(alone) and max(map(len, rows)) > 1 and alone_block <= block <= BLOCK, (len(rows), block)


def packed_texts(folder):
    """Rows of text are documents, and long ones several; each token but the first is a target once."""
    make(folder, [])
    texts_of = ["row %d" % i * (1 + i % 3 * 5) for i in range(9)] + ["", "x" * 150]
    with open(f"{folder}/rows.jsonl", "w") as f:
        f.write("".join(json.dumps({"text": text}) + "\n" for text in texts_of))
    wanted = []
    for text in texts_of:
        ids = encode(text + "</s>")
        wanted += [(ids[a:a + BLOCK][:len(ids) - 1 - a], ids[a + 1:a + 1 + BLOCK]) for a in range(0, len(ids) - 1, BLOCK)]
    block, rows = dump_rows(f"jsonl:{folder}/rows.jsonl,tokenizer={folder}/tok")
    found = [d for row in rows for d in row]
    yield "documents of JSON lines", "" if sorted(found) == sorted(wanted) and len(rows) < len(found) and block == BLOCK else f"{found}\nnot\n{wanted}"


PACKED_MODELS = {
    "gpt": f"gpt:layers=2,heads=2,width=16,block={BLOCK}", "llama": f"llama:layers=2,heads=4,kv_heads=2,width=16,block={BLOCK}",
    "a window": f"mistral:layers=2,heads=2,kv_heads=1,width=16,hidden=32,block={BLOCK},window=9,vocab=259",
    "windows and caps": f"gemma2:layers=2,heads=2,kv_heads=1,width=16,hidden=32,head_dim=8,block={BLOCK},window=9,vocab=259",
}
PACKED_MODES = {
    "ddp": ["--nproc", 2, "--batch", 8], "zero3, micro-batches": ["--nproc", 2, "--batch", 2, "--accumulate", 4, "--parallel", "zero3"],
    "tensor, sequence": ["--nproc", 2, "--batch", 16, "--tensor-parallel", 2, "--sequence-parallel"],
    "pipeline": ["--nproc", 2, "--batch", 4, "--accumulate", 4, "--pipeline-parallel", 2], "recomputed": ["--batch", 16, "--recompute", "all"],
    "reproducible": ["--nproc", 2, "--batch", 8, "--reproducible"],
}


def packing(folder):
    """A step of all conversations has the same loss, and makes the same weights, packed and alone; in evaluations, too."""
    spec = make(folder, short_talks())
    common = [*COMMON[2:], "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--lr", 0.5]
    packed_one = {}
    for name, model in PACKED_MODELS.items():
        curves = {}
        for pack, other, batch in (("no", "yes", 24), ("yes", "no", 16)):
            out = f"{folder}/{name}-{pack}"
            gtrain("train", "--model", model, "--data", f"{spec},pack={pack}", "--val", f"{spec},pack={other}", "--batch", batch, "--out", out, *common, "--steps", 3,
                   "--eval-every", 1)
            curves[pack] = curve(out), curve(out, "val")
        for k, what in enumerate(("losses", "evaluations")):
            far = apart(curves["yes"][k], curves["no"][k])
            yield f"{name}: packed and alone have the same {what}", "" if len(curves["yes"][k]) == 3 and far < 1e-6 else f"{len(curves['yes'][k])} rows, {far} apart"
        packed_one[name] = curves["yes"][0]
    for i, (mode, options) in enumerate(PACKED_MODES.items()):
        # The layers of a window have too few weights that ranks share for the sequence axis.
        for name in tap.one_in(3, [m for m in PACKED_MODELS if "window" not in m or "--sequence-parallel" not in options], i):
            out = f"{folder}/{name}-{mode}"
            gtrain("train", "--model", PACKED_MODELS[name], "--data", f"{spec},pack=yes", *options, "--out", out, *common, "--steps", 3)
            far = apart(curve(out), packed_one[name])
            yield f"{name}: packed, {mode}", "" if len(curve(out)) == 3 and far < 1e-5 else f"{far} apart"
    yield from packed_order(folder, spec, common)


def packed_order(folder, spec, common):
    """Shuffled rows are the same for any number of ranks, and in a run that is resumed in the middle of an epoch."""
    args = ["train", "--model", PACKED_MODELS["gpt"], "--data", f"{spec},pack=yes", *common]
    gtrain(*args, "--steps", 12, "--batch", 2, "--out", f"{folder}/one")
    gtrain(*args, "--steps", 12, "--batch", 1, "--nproc", 2, "--out", f"{folder}/two")
    far = apart(curve(f"{folder}/two"), curve(f"{folder}/one"))
    yield "two ranks read the rows of one", "" if far < 1e-5 else f"{far} apart"
    gtrain(*args, "--steps", 5, "--batch", 2, "--out", f"{folder}/half")
    gtrain("train", "--resume", f"{folder}/half", "--steps", 12, "-q")
    rows = [[row["loss"] for row in curve(f"{folder}/{name}")] for name in ("one", "half")]
    yield "a resumed run goes on with the next row", "" if len(rows[1]) == 12 and rows[0] == rows[1] else f"{rows[1]}, not {rows[0]}"


def refused(folder):
    spec = make(folder, short_talks()[:4])
    for model, data, error in (("seq:Embedding(259,8),Linear(8,259)", spec + ",pack=yes", "several documents in a sample"), ("gpt:block=64", spec + ",pack=maybe", "pack=maybe"),
                               ("gpt:block=64", f"jsonl:{folder}/chat.jsonl,level=byte,pack=yes", "a tokenizer of subwords")):
        done = subprocess.run([GTRAIN, "train", "--model", model, "--data", data, "--steps", "1"], capture_output=True, text=True, timeout=60)
        yield f"{model} with {data[-8:]} is refused", "" if done.returncode in (1, 2) and error in done.stderr else f"{done.returncode}: {done.stderr}"


def torch_loss(model, spec, block):
    rows = [row for row in dump(spec)[1]]
    x, y = (torch.tensor([row[k] for row in rows]) for k in (0, 1))
    assert x.shape[1] == block, x.shape
    return torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=IGNORE)


def training(folder):
    """Full batches of gtrain beside PyTorch: one rank, two, micro-batches; --val, and the run's own evaluation."""
    spec, name = make(folder, talks(12)), f"{folder}/begin"
    block = 64
    gtrain("train", "--model", f"gpt:layers=1,heads=2,width=16,block={block}", "--data", spec, "--batch", 4, "--out", name, "--steps", 1, "-q")
    model = models.GPT(1, 2, 16, block, 256 + len(SPECIALS))
    model.load_state_dict(torch.load(f"{name}/model.pth"), strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    shorter, losses = dump(spec)[0], []
    for _ in range(6):
        loss = torch_loss(model, spec, shorter)
        losses.append({"loss": loss.item()})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    common = [*COMMON[2:], "--steps", 6, "--init-from", name, "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--lr", 0.5,
              "--model", f"gpt:layers=1,heads=2,width=16,block={block}", "--data", spec]
    for label, options in {"one rank": ["--batch", 12], "two ranks": ["--nproc", 2, "--batch", 6], "micro-batches": ["--batch", 3, "--accumulate", 4],
                           "sharded": ["--nproc", 2, "--batch", 3, "--accumulate", 2, "--parallel", "zero3"]}.items():
        out = f"{folder}/{label.replace(' ', '-')}"
        gtrain("train", *common, *options, "--out", out)
        rows = curve(out)
        far = apart(rows, losses)
        yield f"the curve is PyTorch's: {label}", "" if len(rows) == 6 and far < 1e-5 else f"{len(rows)} rows, {far} apart"
    out = f"{folder}/one-rank"
    with open(f"{folder}/held.jsonl", "w") as f:
        f.write("".join(json.dumps(row) + "\n" for row in talks(5, 1)))
    held = f"chat:{folder}/held.jsonl"
    wanted = torch_loss(model, f"{held},tokenizer={folder}/tok", dump(f"{held},tokenizer={folder}/tok")[0]).item()
    done = subprocess.run([GTRAIN, "eval", "--ckpt", out, "--data", held, "--json", "-q"], capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)["loss"] if not done.returncode else 0
    yield "an evaluation takes template and tokenizer from the run", "" if abs(found - wanted) < 1e-5 * wanted else f"{found}, not {wanted}: {done.stderr}"
    gtrain("train", *common, "--batch", 12, "--val", held + f",tokenizer={folder}/tok", "--eval-every", 6, "--out", f"{folder}/val")
    found = curve(f"{folder}/val", "val")[-1]["loss"]
    yield "samples of --val have the length of those of --data", "" if abs(found - wanted) < 1e-5 * wanted else f"{found}, not {wanted}"


def prompt_for(talk):
    return "".join(text for text, _ in turns(talk)) + "<|start|>assistant\n"


def written_after(run, talk, tokens):
    """The text that generate writes after the prompt for an answer."""
    prompt = prompt_for(talk)
    done = subprocess.run([GTRAIN, "generate", "--ckpt", run, "--prompt", prompt, "--tokens", str(tokens), "--temperature", "0", "--json", "-q"],
                          capture_output=True, text=True, timeout=60)
    return re.split("|".join(map(re.escape, SPECIALS)), json.loads(done.stdout)["text"][len(prompt):])[0]


def chat(run, lines, *options):
    return subprocess.run([GTRAIN, "generate", "--ckpt", run, "--chat", "--temperature", "0", *map(str, options)], input="".join(line + "\n" for line in lines),
                          capture_output=True, text=True, timeout=60)


def chatting(folder):
    """Answers are the texts that generate writes after the rendered conversation, whatever the caches have."""
    spec, learned = make(folder, [{"messages": messages([("user", "1+1?"), ("assistant", "2"), ("user", "so"), ("assistant", "yes.")])}]), f"{folder}/learned"
    gtrain("train", "--model", "llama:layers=1,heads=2,width=32,block=128", "--data", spec, "--steps", 120, "--batch", 1, "--lr", 0.01, "--out", learned, "-q")
    done = chat(learned, ["1+1?", "", "so"])
    yield "answers end where the template ends them", "" if (done.returncode, done.stdout) == (0, "2\nyes.\n") else f"{done.returncode} {done.stdout!r} {done.stderr}"
    run, lines = f"{folder}/random", ["one", "a second line, that is longer than a chunk of tokens", "3"]
    gtrain("train", "--model", "gpt:layers=1,heads=2,width=16,block=256", "--data", spec, "--steps", 1, "--batch", 1, "--out", run, "-q")
    talk, answers = [("system", "be brief")], []
    for line in lines:
        talk.append(("user", line))
        answers.append(written_after(run, talk, 5))
        talk.append(("assistant", answers[-1]))
    done = chat(run, lines, "--system", "be brief", "--tokens", 5)
    yield "a conversation is the text of its messages", "" if done.stdout == "".join(a + "\n" for a in answers) else f"{done.stdout!r}, not {answers}: {done.stderr}"
    talk, answers = [], []
    for _ in range(4):
        talk.append(("user", "x" * 60))
        while len(encode(prompt_for(talk))) >= 256:
            talk = talk[2:]
        answers.append(written_after(run, talk, 5))
        talk.append(("assistant", answers[-1]))
    done = chat(run, ["x" * 60] * 4, "--tokens", 5)
    yield "old messages are left out", "" if done.stdout == "".join(a + "\n" for a in answers) and "of the oldest messages" in done.stderr \
        else f"{done.stdout!r}, not {answers}: {done.stderr}"
    done = chat(run, ["x" * 300, "one"], "--tokens", 5)
    yield "a message that is too long is left out", "" if done.stdout == written_after(run, [("user", "one")], 5) + "\n" and "the message is left out" in done.stderr \
        else f"{done.stdout!r} {done.stderr}"
    gtrain("train", "--model", "gpt:layers=1,heads=2,width=16,block=4096", "--data", spec, "--steps", 1, "--batch", 1, "--out", f"{folder}/long", "-q")
    yield "Ctrl-C ends an answer", interrupted(f"{folder}/long")
    with open(f"{folder}/t.txt", "w") as f:
        f.write("some text of a run. " * 20)
    gtrain("train", "--model", "gpt:layers=1,heads=1,width=8,block=16", "--data", f"text:{folder}/t.txt", "--steps", 1, "--batch", 1, "--out", f"{folder}/text", "-q")
    for args, code, error in ((["--ckpt", f"{folder}/text", "--chat"], 2, "conversations"), (["--ckpt", run, "--chat", "--json"], 2, "--chat cannot be combined with --json"),
                              (["--ckpt", run, "--system", "be brief"], 2, "--system has no effect"), (["--ckpt", run, "--chat"], 1, "standard input, line 2: a message is not UTF-8")):
        done = subprocess.run([GTRAIN, "generate", *args], input=b"\n\xff\n", capture_output=True, timeout=60)
        yield f"refused: {error}", "" if done.returncode == code and error.encode() in done.stderr and not done.stdout else f"{done.returncode}: {done.stderr}"


def interrupted(run):
    """An answer of as many tokens as there are is stopped, and so the next line is answered."""
    with subprocess.Popen([GTRAIN, "generate", "--ckpt", run, "--chat", "--tokens", "100000", "--temperature", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdin.write(b"one\n")
        p.stdin.flush()
        first = p.stdout.read(1)
        p.send_signal(signal.SIGINT)
        rest, errors = p.communicate(b"", timeout=60)
    return "" if first and rest.endswith(b"\n") and p.returncode == 0 else f"{p.returncode}: {errors.decode()}"


def exported(folder):
    """The template stays with the tokenizer: from a folder to a run, also one of plain text, and to folders and files of others."""
    spec, model = make(folder, short_talks()[:4]), f"{folder}/hf"
    with open(f"{folder}/t.txt", "w") as f:
        f.write("some text of a run. " * 20)
    gtrain("train", "--model", "gpt:layers=1,heads=1,width=8,block=64", "--data", spec, "--steps", 1, "--batch", 1, "--out", f"{folder}/chat", "-q")
    gtrain("ckpt", "convert", f"{folder}/chat", "--to", "hf", "-o", model, "-q")
    gtrain("train", "--model", model, "--data", f"text:{folder}/t.txt", "--steps", 1, "--batch", 1, "--out", f"{folder}/text", "-q")
    gtrain("ckpt", "convert", f"{folder}/text", "--to", "hf", "-o", f"{folder}/again", "-q")
    for name in ("chat", "hf", "text", "again"):
        with open(f"{folder}/{name}/tokenizer_config.json") as f:
            config = json.load(f)
        yield f"template and special tokens in {name}", "" if config["chat_template"] == TEMPLATE and config["eos_token"] == "</s>" else repr(config)
        found = dump(f"chat:{folder}/chat.jsonl,tokenizer={folder}/{name}")
        yield f"samples by the tokenizer in {name}", "" if found == dump(spec) else repr(found)
    gtrain("ckpt", "convert", model, "--to", "gguf", "-o", f"{folder}/m.gguf", "-q")
    with open(f"{folder}/m.gguf", "rb") as f:
        yield "the template in a GGUF file", "" if b"tokenizer.chat_template" + struct.pack("<IQ", 8, len(TEMPLATE)) + TEMPLATE.encode() in f.read() else "it has none"
    yield "transformers renders the same text", apply_chat_template(f"{folder}/again", [("user", "1+1?"), ("assistant", "2"), ("user", "so")])


def apply_chat_template(folder, talk):
    """The difference of the text that transformers renders with the tokenizer of a folder from that of TEMPLATE."""
    python = os.environ.get("HF_PYTHON")
    if not python:
        return tap.Skip("transformers: HF_PYTHON names a python that has it")
    code = ("import json, sys, transformers\nt = transformers.AutoTokenizer.from_pretrained(sys.argv[1], local_files_only=True)\n"
            "print(json.dumps(t.apply_chat_template(json.loads(sys.argv[2]), tokenize=False, add_generation_prompt=True)))")
    done = subprocess.run([python, "-c", code, folder, json.dumps([{"role": r, "content": c} for r, c in talk])], capture_output=True, text=True, timeout=120)
    wanted = prompt_for(talk)
    return "" if done.returncode == 0 and json.loads(done.stdout) == wanted else f"{done.stdout}{done.stderr[-300:]}, not {wanted!r}"


if __name__ == "__main__":
    sys.exit(tap.run([*tap.parts, training, packed_texts, packing, refused, chatting, exported], DUMP, sys.argv[1:]))
