"""checkpoints.py - whole checkpoints of every format, damaged, given to every command that reads one."""
import os
import shutil

import attacks
import campaign
import corpus
import mutate
import small_files

LARGEST = 64 << 10
ENDINGS = {"zip": ".pth", "legacy": ".legacy", "safetensors": ".safetensors", "npz": ".npz", "gguf": ".gguf"}
OUTPUTS = {"pth": "out.pth", "legacy": "out.pth", "safetensors": "out.safetensors", "npz": "out.npz"}
WHOLE = "checkpoint"  # the name of a good one in the case's folder


def prepare(context):
    """seeds/ckpt: files of PyTorch, numpy, of attackers, and of gtrain in each format that it writes."""
    make_run(context)
    folder = os.path.join(context.seeds, "ckpt")
    if os.path.exists(folder):
        return
    made = folder + ".new"
    shutil.rmtree(made, ignore_errors=True)
    if corpus.torch:
        corpus.torch.manual_seed(1)
    for target, ending in ENDINGS.items():
        for name, data in corpus.TARGETS[target]():
            kind = ".npy" if name.startswith("npy") else ending
            small_files.write(f"{made}/{target}-{name}{kind}", data)
    for i, (group, _, data, _) in enumerate(attacks.all_attacks()):
        if group != "bomb" and len(data) <= LARGEST:
            kind = {"legacy": ".legacy", "safetensors": ".safetensors", "npy": ".npy", "gguf": ".gguf"}.get(group, ".pth")
            small_files.write(f"{made}/attack-{i}{kind}", data)
    for source in ("run/model.pth", "run/checkpoints/step-00000002.pth"):
        for to, name in (("pth", ".pth"), ("legacy", ".legacy"), ("safetensors", ".safetensors"), ("npz", ".npz")):
            out = f"{made}/gtrain-{os.path.basename(source)}-{to}{name}"
            campaign.outcome.run([context.plain, "ckpt", "convert", source, "-q", "--to", to, "-o", out], 30, context.seeds, context.environment)
    os.rename(made, folder)


def make_run(context):
    """seeds/run and the data it was trained on, for all campaigns."""
    if not os.path.exists(f"{context.seeds}/run/model.pth"):
        small_files.make_data(context.seeds)
        small_files.train(context.plain, context.seeds, "run", env=context.environment)


def seeds(context):
    folder = os.path.join(context.seeds, "ckpt")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def edits(rng):
    word = rng.choice(("strip-module", "add-module", "remap", "rename", "strip-module", "remap"))
    more = {"remap": ["--map", rng.choice(("cpu=cuda:0", "cuda=cpu", "cuda:0=cuda:1"))],
            "rename": ["--map", rng.choice(("weight=w", "(.)=\\1x", "^=a.", "module\\.(.*)=\\1"))]}.get(word, [])
    return word, more


def look(case, name):
    rng = case.random
    args = rng.choice((["ls"], ["ls", "--stats"], ["ls", "--json"], ["verify"], ["verify", "--json"], ["diff"]))
    case.run("ckpt", *args, name, *([rng.choice((WHOLE, name))] if args[0] == "diff" else []), findings=True)


def edit_in_place(case, name):
    word, more = edits(case.random)
    before = case.digest(name)
    done = case.run("ckpt", word, name, *more, "--in-place")
    if done.status and case.digest(name) != before:
        case.problem("the edit failed, and the file is not the old one")
    elif done.status == 0:
        readable(case, name)


def edit_copy(case, name):
    word, more = edits(case.random)
    write(case, name, ["ckpt", word, name, *more], "out" + os.path.splitext(name)[1])


def rewrite(case, name):
    rng = case.random
    to = rng.choice(sorted(OUTPUTS))
    args = rng.choice((["convert", name], ["convert", name, "--dtype", rng.choice(("f16", "f64", "bf16"))], ["select", name, "--keys", "*"],
                       ["merge", name, WHOLE], ["merge", "--average", name, name], ["convert", name, "--shard-size", "100"]))
    if "--shard-size" in args:
        to = "safetensors"
    write(case, name, ["ckpt", *args, "--to", to], OUTPUTS[to])


def repair(case, name):
    size = os.path.getsize(case.path(name))
    done = case.run("ckpt", "verify", "--repair", name, findings=True)
    left = os.path.getsize(case.path(name)) if os.path.exists(case.path(name)) else 0
    if done.status == 0 and left < size:
        readable(case, name)
    elif left > size or (size and not left):
        case.problem(f"{size} bytes became {left}")


def write(case, name, args, out):
    sound = case.run("ckpt", "verify", name, findings=True).status == 0
    before = case.digest(out)
    done = case.run(*args, "-o", out)
    if done.status == 0:
        readable(case, out if os.path.exists(case.path(out)) else out + ".index.json", sound)
    elif case.digest(out) != before:
        case.problem(f"status {done.status}, and '{out}' is not the old one, or none")


def readable(case, name, sound=False):
    """A file that was written with status 0 must be readable, and sound if its source was."""
    if case.run("ckpt", "ls", name).status:
        case.problem(f"'{name}' was written with status 0 and cannot be read")
    elif sound and case.run("ckpt", "verify", name, findings=True).status:
        case.problem(f"'{name}' was written from a sound file and is not sound")


def train_or_eval(case, name):
    rng, common = case.random, ["--model", small_files.GPT, "--data", f"text:{case.context.seeds}/text.txt", "--threads", "1", "-q"]
    vocab = ["--vocab", f"{case.context.seeds}/run/vocab.json"]
    args = rng.choice((["eval", *common, *vocab, "--ckpt", name], ["eval", *common, *vocab, "--ckpt", name, "--strict", "no"],
                       ["generate", "--model", small_files.GPT, *vocab, "--tokens", "2", "--threads", "1", "--ckpt", name],
                       ["train", *common, "--steps", "4", "--batch", "4", "--out", "out", "--init-from", name],
                       ["train", *common, "--steps", "4", "--batch", "4", "--out", "out", "--resume", name]))
    case.run(*args)


def case(case):
    rng, files = case.random, seeds(case.context)
    own = [f for f in files if "gtrain-" in f]
    uses = rng.choice(([look, look, edit_in_place, edit_copy, rewrite, rewrite, repair], [train_or_eval]))
    source = rng.choice(own if uses == [train_or_eval] or rng.random() < 0.3 else files)
    ending = os.path.splitext(source)[1]
    name = "in" + (".pth" if ending == ".legacy" else ending)
    with open(source, "rb") as f, open(rng.choice(files), "rb") as g:
        data = mutate.mutate(rng, f.read(), ending, [g.read()])
    shutil.copy(os.path.join(case.context.seeds, "run/model.pth"), case.path(WHOLE))
    for use in rng.sample(uses, min(2, len(uses))):
        small_files.write(case.path(name), data)
        use(case, name)


CAMPAIGN = campaign.Campaign("checkpoints", prepare, case, share=4)
