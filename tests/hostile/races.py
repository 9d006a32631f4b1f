"""races.py - edits in place of one file by several processes at once: whichever comes last, the file is sound."""
import os
import shutil
import subprocess

import campaign
import checkpoints
import faults

EDITS = [["add-module"], ["strip-module"], ["remap", "--map", "cpu=cuda:0"], ["remap", "--map", "cuda:0=cpu"], ["rename", "--map", "weight=weighs"]]
LIMIT = 60


def case(case):
    rng, context = case.random, case.context
    name = rng.choice(("in.pth", "in.safetensors"))
    shutil.copy(f"{context.seeds}/{name}", case.path(name))
    running = []
    for _ in range(rng.choice((2, 3, 3))):
        args = ["ckpt", *rng.choice(EDITS), name, "--in-place", "-q"]
        if name.endswith("safetensors") and "remap" in args:
            args = ["ckpt", "ls", name]
        case.commands.append(" ".join(args))
        running.append((args, subprocess.Popen([context.gtrain, *args], cwd=case.folder, env=context.environment, text=True,
                                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)))
    for args, process in running:
        out, err = process.communicate(timeout=LIMIT)
        done = campaign.outcome.Outcome(args, process.returncode, out, err, 0, 0)
        for problem in campaign.outcome.problems(done, (0, 1)):
            case.problems.append((problem, " ".join(args)))
    checkpoints.readable(case, name, sound=True)


CAMPAIGN = campaign.Campaign("races", faults.prepare, case, share=1)
