"""data_files.py - tables, idx files, tar archives, images, texts and vocabularies, damaged, given to train and eval."""
import os
import shutil

import campaign
import checkpoints
import mutate
import small_files


def prepare(context):
    """A checkpoint for each kind of data, for eval."""
    checkpoints.make_run(context)
    for kind, spec in small_files.DATA.items():
        if not os.path.exists(f"{context.seeds}/model-{kind}/model.pth"):
            small_files.train(context.plain, context.seeds, f"model-{kind}", spec, steps=1, env=context.environment)


def files_of(path):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(path) for name in names) if os.path.isdir(path) else [path]


def case(case):
    rng, seeds = case.random, case.context.seeds
    kind = rng.choice(sorted(small_files.DATA))
    spec = small_files.DATA[kind]
    path = spec.split(":")[1].split(",")[0]
    (shutil.copytree if os.path.isdir(f"{seeds}/{path}") else shutil.copy)(f"{seeds}/{path}", case.path(path))
    shutil.copy(f"{seeds}/run/vocab.json", case.path("vocab.json"))
    damaged = rng.choice(files_of(case.path(path)))
    model, vocab = ["--model", small_files.model_for(spec)], []
    if kind == "text" and rng.random() < 0.5:
        damaged, vocab = case.path("vocab.json"), ["--vocab", "vocab.json"]
    with open(damaged, "rb") as f:
        data = f.read()
    ending = os.path.splitext(damaged)[1]
    small_files.write(damaged, mutate.mutate(rng, data, ending))
    if rng.random() < 0.1:  # among options of the data, some that fit less
        spec += rng.choice((",size=1", ",size=4096", ",split=test", ",level=byte", ",level=char", ",header=no", ",mean=0,std=0"))
    common = [*model, "--threads", "1", "-q", "--batch", "4", "--data", spec]
    if vocab or rng.random() < 0.4:
        case.run("eval", *common, *vocab, "--ckpt", f"{seeds}/model-{kind}/model.pth")
    else:
        case.run("train", *common, "--steps", "1", "--workers", "1", "--out", "out")
    if os.path.exists("/tmp/outside.png") or os.path.exists(os.path.join(case.context.folder, "outside.png")):
        case.problem("a file was written outside")


CAMPAIGN = campaign.Campaign("data_files", prepare, case, share=2)
