#!/usr/bin/env python3
"""sampler.py - gtrain's sampler against torch's DistributedSampler and DataLoader (TAP)."""
import itertools
import os
import subprocess
import sys

TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")

try:
    import torch
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler
except ImportError:
    print("1..1\nok 1 # SKIP python has no torch")
    sys.exit(0)


def ask(cases):
    """Samples of the rank and batches for each (n, world, rank, batch, drop, pad, shuffle, seed, epoch)."""
    lines = "".join(" ".join(str(int(v)) for v in c) + "\n" for c in cases)
    out = subprocess.run([os.path.join(TESTS, "sampler_dump")], input=lines, check=True,
                         capture_output=True, text=True).stdout.split("end\n")
    answers = []
    for block in out[:len(cases)]:
        first, *rest = block.splitlines()
        answers.append((int(first), [[int(i) for i in line.split()] for line in rest]))
    assert len(answers) == len(cases), "sampler_dump stopped early"
    return answers


def expected(n, world, rank, batch, drop):
    data = list(range(n))
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=False, drop_last=drop)
    loader = DataLoader(data, batch_size=batch, sampler=sampler, drop_last=drop)
    return len(sampler), [b.tolist() for b in loader]


def compare_with_torch(drop):
    wrong = []
    cases = [(n, world, rank, batch, drop, 1, 0, 0, 0)
             for n in (1, 2, 3, 7, 8, 9, 16, 31, 100)
             for world in (1, 2, 3, 4, 8)
             for rank in range(world)
             for batch in (1, 3, 4, 64)]
    for case, answer in zip(cases, ask(cases)):
        if answer != expected(*case[:5]):
            wrong.append(f"n, world, rank, batch = {case[:4]}: {answer} != {expected(*case[:5])}")
    return len(cases), wrong


def epoch_order(n, world, batch, seed, epoch):
    """The permutation put together again from what the ranks draw."""
    answers = ask([(n, world, r, batch, 0, 0, 1, seed, epoch) for r in range(world)])
    ranks = [list(itertools.chain(*batches)) for _, batches in answers]
    return [x for group in itertools.zip_longest(*ranks) for x in group if x is not None]


def shuffles():
    wrong = []
    for n in (1, 2, 10, 97, 1000):
        whole = epoch_order(n, 1, 16, 1, 0)
        if sorted(whole) != list(range(n)):
            wrong.append(f"{n} samples: not a permutation")
        for world in (2, 3, 8):
            if epoch_order(n, world, 5, 1, 0) != whole:
                wrong.append(f"{n} samples: the ranks of {world} do not share one permutation")
    a, b, c = (epoch_order(100, 1, 100, s, e) for s, e in ((1, 0), (1, 1), (2, 0)))
    if a == b or a == c or a == sorted(a):
        wrong.append("the permutation does not change with epoch and seed")
    return 21, wrong


def uniform():
    """Each sample comes first about equally often: chi-squared with 9 degrees of freedom."""
    epochs = 2000
    answers = ask([(10, 1, 0, 1, 0, 0, 1, 7, e) for e in range(epochs)])
    counts = [0] * 10
    for _, batches in answers:
        counts[batches[0][0]] += 1
    chi2 = sum((c - epochs / 10) ** 2 / (epochs / 10) for c in counts)
    return epochs, [] if chi2 < 27.9 else [f"chi-squared {chi2:.1f} (0.1% level: 27.9): {counts}"]


CHECKS = [
    ("padded shards and batches are DistributedSampler's", lambda: compare_with_torch(False)),
    ("shards and batches with drop_last are DistributedSampler's", lambda: compare_with_torch(True)),
    ("shuffling permutes, by seed and epoch, alike on all ranks", shuffles),
    ("shuffling is uniform in the first place", uniform),
]

print(f"1..{len(CHECKS)}")
failed = False
for number, (name, check) in enumerate(CHECKS, 1):
    count, wrong = check()
    failed |= bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {number} - {name} ({count} cases)")
    for line in wrong[:5]:
        print("#", line)
sys.exit(failed)
