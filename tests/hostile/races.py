"""races.py - edits in place of one file by several processes at once: whichever comes last, the file is sound."""
import contextlib
import os
import shutil

import campaign
import checkpoints

EDITS = (
    ("strip-module",),
    ("add-module",),
    ("add-module", "--prefix", "a.much.longer.prefix.than.the.others."),
    ("rename", "--map", "^(module[.])*=x."),
    ("rename", "--map", "^x[.]="),
    ("remap", "--map", "*=cpu"),
    ("remap", "--map", "cpu=cuda:1"),
)
FORMATS = {"zip": ("pth", ".pth"), "legacy": ("legacy", ".pth"), "safetensors": ("safetensors", ".safetensors"), "npz": ("npz", ".npz")}
COMMANDS = 30  # of a case: enough for names to grow and shrink again, few enough to follow


def seed_file(context, name):
    return os.path.join(context.seeds, "races", name + FORMATS[name][1])


def prepare(context):
    """seeds/races: the state_dict of a small model in each format that can be edited in place."""
    checkpoints.make_run(context)
    os.makedirs(os.path.join(context.seeds, "races"), exist_ok=True)
    for name, (to, _) in FORMATS.items():
        if not os.path.exists(seed_file(context, name)):
            campaign.outcome.run([context.plain, "ckpt", "convert", "run/model.pth", "-q", "--to", to, "-o", seed_file(context, name)], 30,
                                 context.seeds, context.environment)


def start(case, name):
    word, *more = case.random.choice(EDITS)
    sync = ["--sync=no"] if case.random.random() < 0.9 else []
    running = case.start("ckpt", word, name, *more, "--in-place", "-q", *sync)
    return running, case.commands[-1]


def finish(case, running, command):
    done = running.finish(case.context.limits()[0])
    case.judge(done, command, statuses=(0, 1))
    if done.status == 1 and not case.problems:
        for problem in campaign.outcome.only_error_and_hints(done):
            case.problem(problem, command)


def race(case, name, at_once):
    """COMMANDS edits, so many at a time; the first problem ends them all."""
    running = []
    with contextlib.ExitStack() as started:
        for _ in range(COMMANDS):
            if len(running) == at_once:
                finish(case, *running.pop(case.random.randrange(at_once)))
            if case.problems:
                return
            running.append(start(case, name))
            started.enter_context(running[-1][0])
        while running and not case.problems:
            finish(case, *running.pop(0))


def case(case):
    kind = case.random.choice(sorted(FORMATS))
    name = "in" + FORMATS[kind][1]
    shutil.copy(seed_file(case.context, kind), case.path(name))
    race(case, name, case.random.choice((2, 3)))
    if not case.problems:
        case.find_temporaries()
        checkpoints.readable(case, name, sound=True)


CAMPAIGN = campaign.Campaign("races", prepare, case)
