#!/usr/bin/env python3
"""functions.py - functions of one element at special points, and their gradients, beside PyTorch's.

functions_dump runs each of them at 0, -0, infinities, NaN, large and tiny numbers and the points where formulas change; functions of
two arguments at all pairs. Results are equal to 2e-6 of the larger of 1 and the result, which allows for rounding alone.
"""
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")

FUNCTIONS = {
    "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "hardswish": F.hardswish,
    "clamp": lambda x: x.clamp(-0.5, 2), "hardtanh": F.hardtanh, "relu6": F.relu6, "hardsigmoid": F.hardsigmoid,
    "leaky_relu": F.leaky_relu, "elu": F.elu, "softplus": F.softplus, "softplus_steep": lambda x: F.softplus(x, 3, 10), "mish": F.mish,
    "celu": lambda x: F.celu(x, 2), "selu": F.selu, "log_sigmoid": F.logsigmoid, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 20),
    "square": lambda x: x.pow(2), "power": lambda x: x.pow(2.5), "power_of_two": lambda x: torch.pow(2, x),
    "reciprocal": lambda x: 1 / x, "rest": lambda x: 1 - x,
}

# Points that are not compared: where PyTorch's formula gives NaN of an infinite product, where its versions differ (hardswish at -3, shrinks of NaN), and
# sines of numbers whose neighbours are many periods away (kernels/cpu/vmath.h).
INFINITE = (float("inf"), -float("inf"))
LARGE = tuple(torch.tensor([1e30, -1e30]).tolist())
NAN = (float("nan"),)
LIMITS = {"hardshrink": NAN, "softshrink": NAN, "gelu": INFINITE, "gelu_tanh": INFINITE + LARGE, "hardswish": INFINITE + (-3,), "silu": INFINITE, "mish": INFINITE, "sin": LARGE, "cos": LARGE}


def differs(ours, theirs):
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    near = (ours - theirs).abs() <= 2e-6 * theirs.abs().clamp(min=1)
    return ~(same | (near & ours.isfinite() & theirs.isfinite()))


def check(case):
    """The names of results that differ, and where."""
    inputs = [case[n].clone().requires_grad_() for n in ("a", "b") if n in case]
    f = FUNCTIONS.get(case["name"]) or getattr(torch, case["name"])
    y = f(*inputs).float()
    if y.requires_grad:
        y.sum().backward()
    far = {}
    for name, ours, theirs in [("y", case["y"], y.detach())] + [
            ("d" + n, case["d" + n], torch.zeros_like(x) if x.grad is None else x.grad) for n, x in zip(("a", "b"), inputs)]:
        bad = differs(ours, theirs)
        for limit in LIMITS.get(case["name"], ()):
            bad &= ~case["a"].isnan() if limit != limit else case["a"] != limit
        for i in bad.nonzero().flatten().tolist()[:5]:
            far[f"{name} at {[float(x[i]) for x in inputs]}"] = (float(ours[i]), float(theirs[i]))
    return far


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "functions.pth")
        subprocess.run([os.path.join(TESTS, "functions_dump"), path], check=True)
        cases = torch.load(path)
    print(f"1..{len(cases)}")
    good = True
    for number, case in enumerate(cases, 1):
        far = check(case)
        good &= not far
        print(f"{'not ok' if far else 'ok'} {number} - {case['name']}")
        for place, (ours, theirs) in far.items():
            print(f"# {place}: {ours:.9g}, PyTorch has {theirs:.9g}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
