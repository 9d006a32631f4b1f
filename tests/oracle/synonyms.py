#!/usr/bin/env python3
"""synonyms.py - other programs' words for options (cmd/synonyms.c): each gets its hint, and each hint names an option that exists (TAP)."""
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
import tap  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
TABLE = os.path.join(HERE, "..", "..", "cmd", "synonyms.c")

# command, what people type, what the hint has to have
TYPED = [
    ("train", "--batch-size 8", "--batch N"), ("train", "--batch_size=8", "--batch N"), ("train", "--per_device_train_batch_size 8", "--batch N"),
    ("train", "--learning-rate 1e-3", "--lr X"), ("train", "--learning_rate=1e-3", "--lr X"), ("train", "--num-workers 2", "--workers N"),
    ("train", "--output-dir out", "--out DIR"), ("train", "--save-dir out", "--out DIR"), ("train", "--default_root_dir out", "--out DIR"),
    ("train", "--max-steps 9", "--steps N"), ("train", "--max_epochs 9", "--epochs N"), ("train", "--num_train_epochs 3", "--epochs N"),
    ("train", "--gradient-accumulation-steps 2", "--accumulate N"), ("train", "--accumulate_grad_batches 2", "--accumulate N"),
    ("train", "--mixed-precision fp16", "--amp off|bf16"), ("train", "--precision 16", "--amp off|bf16"), ("train", "--fp16", "--amp fp16'"),
    ("train", "--bf16", "--amp bf16'"), ("train", "--gpus 2", "--device cuda:0,cuda:1"), ("train", "--devices 2", "--device cuda:0,cuda:1"),
    ("train", "--nproc-per-node 2", "--nproc N"), ("train", "--nproc_per_node=2", "torchrun --no-python"), ("train", "--num_processes 2", "--nproc N"),
    ("train", "--adan", "--optimizer adan'"), ("train", "--useAdamW", "--optimizer adamw'"), ("train", "--optimizer use_sgd", "did you mean 'sgd'?"),
    ("train", "--wd 0.1", "--weight-decay X"), ("train", "--checkpoint a.pth", "--resume CKPT continues a run; --init-from CKPT"),
    ("train", "--early-stopping 3", "--patience N"), ("train", "--log-interval 5", "--log-every N"), ("train", "--logging_steps 5", "--log-every N"),
    ("train", "--clip-grad-norm 1", "--clip X"), ("train", "--gradient_clip_val 1", "--clip X"), ("train", "--max_grad_norm 1", "--clip X"),
    ("train", "--dropout 0.1", "--model NAME:dropout=P"), ("generate", "--max-tokens 9", "--tokens N"), ("generate", "--max_new_tokens 9", "--tokens N"),
    ("train", "--scheduler cosine", "--lr-schedule constant|step|cosine"), ("train", "--lr_scheduler_type cosine", "--lr-schedule constant|"),
    ("train", "--eval", "gtrain eval --ckpt RUN"), ("train", "--strategy ddp", "--parallel ddp|"), ("train", "--fsdp", "--parallel zero3"),
    ("train", "--resume_from_checkpoint a", "--resume auto|CKPT"), ("train", "--save_steps 5", "--save-every N"), ("train", "--eval_steps 5", "--eval-every N"),
    ("train", "--save_total_limit 2", "--keep N"), ("train", "--gradient_checkpointing", "--recompute["), ("train", "--sync_batchnorm", "--sync-bn'"),
    ("train", "--deterministic", "--reproducible'"), ("train", "--num-nodes 2", "torchrun --nnodes 2"), ("train", "--nnodes 2", "torchrun --nnodes 2"),
    ("train", "--warmup_ratio 0.1", "--warmup N counts steps"), ("train", "--validation_split 0.1", "--val-split F"), ("train", "--arch resnet18", "--model MODEL"),
    ("train", "--weight_decay 0.1", "--weight-decay'"), ("train", "--accelerator gpu", "--device LIST"), ("eval", "--checkpoint a", "--ckpt CKPT"),
    ("predict", "--top-k 3", "--top N"), ("predict", "--input a.jpg", "gtrain predict --ckpt RUN INPUT"), ("eval", "--batch-size 8", "--batch N"),
    ("train", "--class_weight 1,2", "--class-weights"), ("train", "--label-smoothing 0.1", "--loss cross-entropy:label-smoothing=X"), ("train", "--ignore-index -100", "--loss cross-entropy:ignore-index=N"), ("train", "--criterion mse", "--loss NAME"), ("train", "--huber-delta 2", "--loss huber"), ("train", "--multi-label", "--loss bce"), ("train", "--metrics mae", "errors and R2 for numbers, unasked"), ("train", "--wandb", "--tensorboard"), ("train", "--tb-dir a", "--tensorboard"),
    ("train", "--torch_compile", "nothing is to be asked for"), ("train", "--lora_r 8", "--lora r=8,alpha=16"),
    ("train", "--modules_to_save classifier", "train=classifier"),
    ("data get", "--output-dir x", "--to DIR"), ("ckpt convert", "--fp16", "--dtype fp16"), ("ckpt convert", "--format npz", "--to pth|"),
    ("ckpt sign", "--private_key a", "--key FILE"), ("ckpt verify", "--public_key a", "--key FILE"), ("ckpt sign", "--allow_symlinks", "--symlinks"),
]


def described():
    done = subprocess.run([GTRAIN, "help", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["commands"]


def commands():
    return {c["name"]: [o["name"] for o in c["options"]] for c in described()}


def own_values(option):
    return next(o["words"] for c in described() for o in c["options"] if o["name"] == option)


def rows():
    """The rows of the table, each a list: words, option, value, note, beside. The row "*" is one row for each value of its option."""
    with open(TABLE, encoding="ascii") as f:
        text = f.read().split("gt_cmd_synonyms[] = {", 1)[1]
    text = re.sub(r'"\s+"', "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    cell = r'\s*("(?:[^"\\]|\\.)*"|NULL)\s*'
    for cells in re.findall(r"\{" + ",".join([cell] * 5) + r"\}", text):
        row = [None if c == "NULL" else json.loads(c) for c in cells]
        if row[0] == "*":
            yield from ([f"{value} use-{value}", row[1], value, *row[3:]] for value in own_values(row[1]))
        elif row[0]:
            yield row


def letters(word):
    return word.replace("-", "").replace("_", "").lower()


def hint(command, *words):
    done = subprocess.run([GTRAIN, *command.split(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def typed(_folder):
    for command, words, wanted in TYPED:
        status, said = hint(command, *words.split())
        yield f"{command} {words}: {wanted}", "" if status == 2 and "\nhint: " in said and wanted in said.split("\nhint: ")[1] else said


def table(_folder):
    """Each word of each row has the hint of its row, in every command where no earlier row and no option has it."""
    options, first, jobs = commands(), {}, []
    targets = {n for names in options.values() for n in names}
    for row in rows():
        words, option, _, _, beside = row
        here = [c for c, names in options.items() if option in names and (not beside or beside in names)]
        own = sum(letters(w) == letters(o) for w in words.split() for c in here for o in options[c])
        yield f"--{option} of '{words.split()[0]}' exists", "" if option in targets and here and not own else f"{row}: {here}, {own} are options"
        for word in words.split():
            free = [c for c in here if (c, letters(word)) not in first]
            first.update(((c, letters(word)), row) for c in free)
            if free:
                jobs.append((free[0], word, row))
            else:
                yield f"'{word}' of --{option} can be reached", f"earlier rows have it in {here}"
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda job: hint(job[0], "--" + job[1].replace("-", "_")), jobs))
    wrong = [f"{c} --{w}: {text}" for (c, w, row), (status, text) in zip(jobs, said)
             if status != 2 or (row[3] or f"--{row[1]}{' ' + row[2] if row[2] else ''}") not in text.partition("\nhint: ")[2]]
    yield f"{len(jobs)} words have their hints", "\n".join(wrong[:5])


def values(_folder):
    """The values of the table are accepted."""
    settings = "".join(subprocess.run([GTRAIN, "help", t], stdout=subprocess.PIPE, text=True, check=True).stdout for t in ("models", "data", "augment"))
    options = commands()
    for _, option, value, _, beside in rows():
        if not value:
            continue
        command = next(c for c, names in options.items() if option in names and (not beside or beside in names))
        status, said = hint(command, f"--{option}={value}", "--no-such-option")
        good = status == 2 and "unknown option '--no-such-option'" in said
        keys = re.findall(r"[:,](\w+)=", value)
        missing = [k for k in keys if not re.search(rf"^      {k}=", settings, re.M)]
        if option == "augment" and not re.search(rf"^  {value}$", settings, re.M):
            missing.append(value)
        yield f"--{option} {value} is accepted", "" if good and not missing else f"{said} {missing}"


def words_for_commands(_folder):
    """Words for commands are no commands, and the commands they stand for exist."""
    with open(TABLE, encoding="ascii") as f:
        text = f.read().split("gt_cmd_habits[] = {", 1)[1]
    names, seen = commands(), set()
    groups = {n.split()[0] for n in names if " " in n}
    for words, use in re.findall(r'\{ "([^"]*)",\s+"gtrain ([^"]*)" \}', text):
        first = use.split()
        known = first[0] == "--version" or first[0] in names or " ".join(first[:2]) in names
        options = [o for o in first if o.startswith("--") and o != "--version"]
        known = known and all(o[2:] in names.get(first[0], names.get(" ".join(first[:2]), [])) for o in options)
        yield f"gtrain {use} exists", "" if known else "no such command or option"
        group = [first[0]] if first[0] in groups and len(first) > 1 else []
        asked = [[*group, w] for w in words.split() if group and f"{group[0]} {w}" not in names]
        asked += [[w] for w in words.split() if letters(w) not in seen]
        wrong = ["no word is its own" for _ in asked[:1] if [words.split()[0]] not in asked]
        wrong += [" ".join(a) for a in asked if a[0] in names or (len(a) == 1 and a[0] in groups) or hint(*a)[1] !=
                  f"gtrain: error: '{' '.join(a)}' is not a command\nhint: did you mean 'gtrain {use}'?\n"]
        seen.update(letters(w) for w in words.split())
        yield f"{words}: gtrain {use}", " ".join(wrong)


def in_a_file(folder):
    """The keys of a configuration file get the same hints."""
    path = os.path.join(folder, "config.json")
    for key, wanted in (("learning_rate", "did you mean 'lr'?"), ("fp16", "did you mean 'amp', as in \"amp\": \"fp16\"?"), ("bacth", "did you mean 'batch'?")):
        with open(path, "w", encoding="ascii") as f:
            json.dump({key: 1}, f)
        status, said = hint("train", "--config", path)
        yield f"{key} in a configuration file", "" if status == 2 and wanted in said else said


if __name__ == "__main__":
    sys.exit(tap.run([typed, table, values, words_for_commands, in_a_file], GTRAIN))
