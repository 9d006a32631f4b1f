"""beside.py - the same steps by tests/oracle/model_dump.c and by PyTorch: how far losses and weights are apart."""
import os
import subprocess

from training import TESTS
import torch
import torch.nn.functional as F

STEPS = 12


def dump(folder, path, options=("sgd", 0.002, 0, 0, 4, STEPS, 1), env=None):
    done = subprocess.run([os.path.join(TESTS, "model_dump"), f"{folder}/dump.pth", path, *map(str, options)], capture_output=True, text=True,
                          timeout=120, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return torch.load(f"{folder}/dump.pth")


def differences(module, d, lr=0.002):
    """The same steps in PyTorch; return how far the losses and the final weights are apart."""
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=lr, momentum=0.9)
    mean, std = torch.tensor(d["mean"]).view(-1, 1, 1), torch.tensor(d["std"]).view(-1, 1, 1)
    worst = 0
    for i, loss in enumerate(d["losses"]):
        x, target = d["inputs"][i % 5], d["targets"][i % 5].long()
        if x.dtype == torch.uint8:
            x = (x.permute(0, 3, 1, 2).float() / 255 - mean) / std
        scores = module(x.long() if x.dtype == torch.int32 else x.to(next(module.parameters()).dtype))
        mine = F.cross_entropy(scores.flatten(0, -2), target.flatten())
        optimizer.zero_grad()
        mine.backward()
        optimizer.step()
        worst = max(worst, abs(float(mine) - loss) / abs(float(mine)))
    state = module.state_dict()
    weights = max(float((state[k].double() - v.double()).abs().max() / (state[k].double().abs().max() + 1e-9)) for k, v in d["final"].items())
    return worst, weights
