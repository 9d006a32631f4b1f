"""run_dirs.py - run directories with damaged, moved, linked and strange files, given to train --resume, eval and generate."""
import os
import shutil

import campaign
import checkpoints
import mutate
import small_files

FILES = ("config.json", "metrics.jsonl", "status.json", "vocab.json", "model.pth", "checkpoints/step-00000001.pth", "checkpoints/step-00000002.pth",
         "checkpoints/step-00000003.pth", "checkpoints")
OUTSIDE = {"precious.txt": b"worth keeping\n" * 20, "precious.pth": None}
FIFO_SECONDS = 5


def damage_bytes(case, path):
    if os.path.isfile(path) and not os.path.islink(path):
        with open(path, "rb") as f:
            data = f.read()
        os.unlink(path)  # it may have other names, outside
        small_files.write(path, mutate.mutate(case.random, data, os.path.splitext(path)[1]) if data else b"{")


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def gone(case, path):
    remove(path)


def moved(case, path):
    if os.path.lexists(path):
        to = path + case.random.choice((".old", ".tmp-123-0", "x"))
        os.rename(path, to)
        case.planted.add(to)


def exchanged(case, path):
    other = case.path("run/" + case.random.choice(FILES[:-1]))
    if os.path.isfile(other) and other != path and os.path.isdir(os.path.dirname(path)):
        remove(path)
        shutil.copy(other, path)


def linked(case, path):
    if os.path.isdir(os.path.dirname(path)):
        remove(path)
        to = (case.path("precious.txt"), case.path("precious.pth"), "nowhere", "/dev/null", "/dev/full", path)
        os.symlink(case.random.choice(to), path)


def hard_linked(case, path):
    if os.path.isdir(os.path.dirname(path)):
        remove(path)
        os.link(case.path(case.random.choice(sorted(OUTSIDE))), path)


def folder(case, path):
    if os.path.isdir(os.path.dirname(path)):
        remove(path)
        os.mkdir(path)


def fifo(case, path):
    if os.path.isdir(os.path.dirname(path)):
        remove(path)
        os.mkfifo(path)


def unreadable(case, path):
    if os.path.lexists(path) and not os.path.islink(path):
        os.chmod(path, case.random.choice((0, 0o222, 0o444)))


WAYS = [damage_bytes] * 12 + [gone, moved, exchanged, folder, unreadable, linked, hard_linked, fifo]
USES = [
    ["train", "--resume", "auto", "--out", "run", "--steps", "4", "-q", "--threads", "1"],
    ["train", "--resume", "auto", "--out", "run", "--steps", "4", "-q", "--threads", "1"],
    ["train", "--resume", "run", "--out", "other", "--steps", "4", "-q", "--threads", "1"],
    ["train", "--init-from", "run", "--model", small_files.GPT, "--data", "text:text.txt", "--steps", "1", "--batch", "4", "--out", "other", "-q"],
    ["train", "--config", "run/config.json", "--steps", "1", "--out", "other", "-q", "--threads", "1"],
    ["eval", "--ckpt", "run", "--data", "text:text.txt", "-q", "--threads", "1"],
    ["generate", "--ckpt", "run", "--tokens", "2", "--threads", "1"],
]


def case(case):
    rng, said = case.random, []
    shutil.copytree(f"{case.context.seeds}/run", case.path("run"))
    shutil.copy(f"{case.context.seeds}/text.txt", case.path("text.txt"))
    for name, data in OUTSIDE.items():
        small_files.write(case.path(name), data or open(f"{case.context.seeds}/run/model.pth", "rb").read())
    before = {name: case.digest(name) for name in OUTSIDE}
    for _ in range(rng.choice((1, 1, 2, 3))):
        way, file = rng.choice(WAYS), rng.choice(FILES)
        if os.path.basename(file) == "checkpoints" and way in (damage_bytes, exchanged):
            continue
        way(case, case.path(f"run/{file}"))
        said.append(f"{way.__name__} {file}")
    has_fifo = any(word.startswith("fifo") for word in said)
    case.run(*rng.choice(USES), timeout=FIFO_SECONDS if has_fifo else None)
    case.commands[-1] += "   # " + ", ".join(said)
    case.problems = [(text, case.commands[-1]) for text, _ in case.problems]
    if {name: case.digest(name) for name in OUTSIDE} != before:
        case.problem("outside files changed")


CAMPAIGN = campaign.Campaign("run_dirs", checkpoints.make_run, case, share=2)
