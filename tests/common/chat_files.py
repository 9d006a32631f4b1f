"""chat_files.py - a tokenizer with a chat template, files of conversations, and what their samples are."""
import json
import os
import re

import small_files

SPECIALS = ["<|start|>", "<|end|>", "</s>"]
IGNORE = -100
TEMPLATE = """{% for m in messages %}{{ '<|start|>' + m.role + '\\n' + m.content + '<|end|>\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"""


def make(folder, rows, template=TEMPLATE):
    """A tokenizer with its template, and a file of rows."""
    model = json.loads(small_files.tokenizer())
    vocab = {t: i for t, i in model["model"]["vocab"].items() if i < 256}
    model["model"].update(vocab=vocab, merges=[])
    model["added_tokens"] = [{"id": 256 + i, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False} for i, text in enumerate(SPECIALS)]
    for part in ("pre_tokenizer", "decoder"):
        model[part].update(add_prefix_space=False, trim_offsets=True, use_regex=True)
    os.makedirs(f"{folder}/tok", exist_ok=True)
    with open(f"{folder}/tok/tokenizer.json", "w") as f:
        json.dump(model, f)
    with open(f"{folder}/tok/tokenizer_config.json", "w") as f:
        json.dump({"eos_token": {"content": "</s>"}, "chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": template}]}, f)
    with open(f"{folder}/chat.jsonl", "w") as f:
        f.write("".join(json.dumps(row) + "\n\n" for row in rows))
    return f"chat:{folder}/chat.jsonl,tokenizer={folder}/tok"


def encode(text):
    parts = re.split("(%s)" % "|".join(map(re.escape, SPECIALS)), text)
    return [i for part in parts for i in ([256 + SPECIALS.index(part)] if part in SPECIALS else part.encode())]


def sample(pieces, block):
    """Inputs and targets of texts, some of which are answers: (text, is an answer)."""
    ids = [(i, answer) for text, answer in pieces for i in encode(text)]
    inputs = [i for i, _ in ids[:-1]] + [0] * block
    targets = [i if answer else IGNORE for i, answer in ids[1:]] + [IGNORE] * block
    return inputs[:block], targets[:block]


def turns(talk, trained=("assistant",), end="\n"):
    """The pieces of TEMPLATE: an answer reaches from behind the prompt to the end of its message."""
    for role, content in talk:
        yield f"<|start|>{role}\n", False
        yield f"{content}<|end|>{end}", role in trained


def messages(talk):
    return [{"role": role, "content": content, "name": None} for role, content in talk]
