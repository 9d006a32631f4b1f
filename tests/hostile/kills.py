"""kills.py - ranks and launchers killed, stopped and asked to end at random moments, then resumed: the same bits, nothing left."""
import os
import shutil
import sys
import threading

import campaign

sys.path.append(os.path.join(campaign.HERE, "..", "chaos"))
LOCK, UNDISTURBED = threading.Lock(), {}


def chaos_with(context):
    """tests/chaos/chaos.py on the program without sanitizers: moments are to be short."""
    os.environ["GTRAIN"] = context.plain
    import chaos
    return chaos


def prepare(context):
    chaos_with(context)


def undisturbed(context, chaos):
    with LOCK:
        if not UNDISTURBED:
            folder = os.path.join(context.folder, "undisturbed")
            os.makedirs(folder)
            UNDISTURBED.update(chaos.make_undisturbed(folder))
        return UNDISTURBED


def case(case):
    chaos = chaos_with(case.context)
    whole = undisturbed(case.context, chaos)
    shutil.copy(os.path.join(os.path.dirname(whole[2]), "text.txt"), case.path("text.txt"))
    nproc, done, problems = chaos.one_round(case.random, case.folder, whole)
    case.commands.append(f"train on {nproc} ranks: {', '.join(done)}")
    for problem in problems:
        case.problem(problem)


CAMPAIGN = campaign.Campaign("kills", prepare, case, share=2)
