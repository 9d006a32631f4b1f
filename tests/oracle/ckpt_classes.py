#!/usr/bin/python3
# ckpt_classes.py - what is a state_dict, and what an optimizer's state: every command gives the same answer.
import os
import subprocess
import sys
import warnings
from collections import OrderedDict

try:
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

warnings.filterwarnings("ignore")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")


def tensor(value=1.0):
    return torch.tensor([value, 2.0])


def adam():
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2)).backward()
    optimizer.step()
    return optimizer.state_dict()


class Kept(OrderedDict):
    pass


def with_metadata(values):
    dict_ = OrderedDict(values)
    dict_._metadata = OrderedDict({"": {"version": 1}})
    return dict_


# (what it is, the file, the names of its state_dict; None: it has none that can be told). Commands that take a
# state_dict out and those that edit names have to agree on every row.
AGREED = [
    ("names with dots", {"a.weight": tensor(), "a.bias": tensor()}, ["a.weight", "a.bias"]),
    ("names without dots", {"w": tensor(), "b": tensor()}, ["w", "b"]),
    ("names without dots, nested", {"model": {"w": tensor(), "b": tensor()}, "epoch": 3}, ["w", "b"]),
    ("names without dots, under a key of its own", {"best": {"w": tensor()}, "epoch": 3}, ["w"]),
    ("names without dots, in a tuple", ({"w": tensor()}, adam()), ["w"]),
    ("names like those of an optimizer", {"state": tensor(), "param_groups": tensor(), "fc.weight": tensor()},
     ["state", "param_groups", "fc.weight"]),
    ("the same, nested", {"model": {"state": tensor(), "param_groups": tensor()}, "lr": 0.1}, ["state", "param_groups"]),
    ("a model called state", {"state": {"fc.weight": tensor()}, "epoch": 3}, ["fc.weight"]),
    ("None beside tensors", {"a.weight": tensor(), "a.bias": None}, ["a.weight"]),
    ("extra state beside tensors", {"weight": tensor(), "_extra_state": {"a": 1}}, ["weight"]),
    ("settings beside tensors", {"a.weight": tensor(), "epoch": 3, "arch": "net"}, ["a.weight"]),
    ("objects beside tensors, with _metadata", with_metadata({"w": tensor(), "odd": [1]}), ["w"]),
    ("a subclass of dict", Kept({"w": tensor()}), ["w"]),
    ("an optimizer alone", adam(), None),
    ("an optimizer under a key", {"optimizer": adam(), "epoch": 3}, None),
    ("an optimizer without steps", {"optimizer": {"state": {}, "param_groups": [{"params": [0]}]}}, None),
    ("no tensors", {"epoch": 3, "names": ["a"]}, None),
]


def gtrain(*words):
    return subprocess.run([GTRAIN, "ckpt", *words], capture_output=True, text=True)


def convert(folder, path):
    """The names that convert takes, or None."""
    out, back = os.path.join(folder, "c.npz"), os.path.join(folder, "c.pth")
    done = gtrain("convert", path, "-o", out)
    if done.returncode:
        return None, done.stderr
    again = gtrain("convert", out, "-o", back)
    return sorted(torch.load(back)), done.stderr + again.stderr


def tensors_under(value, found):
    """Names of tensors in every dict but those of optimizers."""
    if isinstance(value, (list, tuple)):
        for item in value:
            tensors_under(item, found)
    elif isinstance(value, dict) and not isinstance(value.get("param_groups"), list):
        for key, item in value.items():
            if isinstance(item, torch.Tensor):
                found.append(key)
            tensors_under(item, found)
    return found


def add_module(folder, path):
    """The names that an edit takes, or None."""
    out = os.path.join(folder, "e.pth")
    done = gtrain("add-module", path, "-o", out)
    if done.returncode:
        return None, done.stderr
    names = tensors_under(torch.load(out), [])
    return sorted(n[len("module."):] for n in names if n.startswith("module.")), done.stderr


def state_dicts(folder):
    path = os.path.join(folder, "f.pth")
    for name, value, names in AGREED:
        torch.save(value, path)
        for command in convert, add_module:
            taken, said = command(folder, path)
            wanted = names and sorted(names)
            yield f"{name}: {command.__name__}", "" if taken == wanted else f"{taken}, not {wanted}\n{said}"


def optimizers(folder):
    """--dtype changes weights, and of an optimizer's state neither steps nor other numbers."""
    state = adam()
    number = torch.tensor(3.0)
    for name, value, of_optimizer, other in (
            ("an optimizer's steps", {"optimizer": state}, lambda v: v["optimizer"]["state"][0]["step"], None),
            ("a scalar weight", {"model": {"scale.s": number, "a.w": tensor()}}, None, lambda v: v["model"]["scale.s"]),
            ("a scalar weight called state", {"state": number, "param_groups": tensor()}, None, lambda v: v["state"])):
        path, out = os.path.join(folder, "f.pth"), os.path.join(folder, "o.pth")
        torch.save(value, path)
        done = gtrain("convert", path, "-o", out, "--dtype", "bf16")
        loaded = done.returncode == 0 and torch.load(out)
        if of_optimizer:
            good = loaded and of_optimizer(loaded).dtype == torch.float32
        else:
            good = loaded and other(loaded).dtype == torch.bfloat16
        yield name, "" if good else f"{loaded}\n{done.stderr}"


if __name__ == "__main__":
    sys.exit(tap.run([state_dicts, optimizers], GTRAIN, sys.argv[1:]))
