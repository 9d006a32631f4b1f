"""joint.py - gradients of the zoo's networks beside torch's own joint graph of forward and backward (make check-zoo-joint).

zoo.py takes its gradients from autograd as it runs a module. torch.export.experimental._export_forward_backward, which is unstable,
derives the gradients ahead of time instead: its graph returns the loss and a gradient for each parameter. Both sides have the weights and
the first batch of zoo.py. A network that PyTorch does not turn into such a graph is listed with the reason.
"""
import argparse
import logging
import os
import subprocess
import sys
import warnings

try:
    import torch
    import torch.nn as nn
    from torch.export.experimental import _export_forward_backward
    from torch.export.graph_signature import InputKind, OutputKind
    from torch.nn.attention import SDPBackend, sdpa_kernel
    import zoo
except ImportError as e:
    sys.exit(f"check-zoo: {sys.executable} has no {e.name}; ZOO_PYTHON must name a python with torch >= 2.9, torchvision, timm and transformers")

PREFIX = "network."
CONVERTED = 50  # networks that must have a joint graph
COLUMNS = ["network", "tensors", "gradient", "PyTorch's", "result"]


class WithLoss(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, target):
        return zoo.loss_of(self.network(x), target)


def first_batch(data):
    x, target = data["inputs"][0], data["targets"][0]
    return zoo.as_input(x), target if target.is_floating_point() else target.long()


def run_program(program, batch):
    """The outputs of the joint graph, which takes weights, buffers and constants as inputs."""
    batch, values = iter(batch), []
    for spec in program.graph_signature.input_specs:
        known = program.state_dict if spec.target in program.state_dict else program.constants
        values.append(next(batch) if spec.kind == InputKind.USER_INPUT else known[spec.target])
    with torch.no_grad():
        return program.graph_module(*values)


def join_tied_names(module):
    """Leave a tied weight one of its names: PyTorch wants a gradient for each, and its graphs read one."""
    for members in list(zoo.groups(module)):
        *others, kept = [name for name, _ in members]
        for node in module.graph.nodes:
            if node.op == "get_attr" and node.target in others:
                node.target = kept
        for name in others:
            path, _, attribute = name.rpartition(".")
            delattr(module.get_submodule(path), attribute)
    module.recompile()


def joint_gradients(folder, data):
    module, batch = zoo.load(folder), first_batch(data)
    members = [[name for name, _ in group] for group in zoo.groups(module)]
    join_tied_names(module)
    # In PyTorch 2.15, the graph of the backward pass of fused attention reads a result that the decomposed forward pass does not compute.
    with sdpa_kernel(SDPBackend.MATH):
        program = _export_forward_backward(torch.export.export(WithLoss(module), batch))
    found = {spec.target.removeprefix(PREFIX): value.double() for spec, value in zip(program.graph_signature.output_specs, run_program(program, batch))
             if spec.kind == OutputKind.GRADIENT_TO_PARAMETER and value is not None}
    gradients = {}
    for names in members:  # a tied weight has the sum of its names' gradients
        parts = [found[name] for name in names if name in found]
        gradients.update({name: sum(parts[1:], parts[0]).float() for name in names if parts})
    return gradients, members


def autograd_gradients(module, data, dtype=torch.float32):
    torch.set_default_dtype(dtype)
    try:
        zoo.step(module, module, data, 0, dtype)
        return zoo.gradients(module)
    finally:
        torch.set_default_dtype(torch.float32)


def gtrain_gradients(program, folder, lr):
    """Return the gradients of the first step, and the error if there are none."""
    path = f"{folder}/joint.pth"
    done = subprocess.run([program, f"{folder}/network.pt2", f"{folder}/data.pth", path, "1", repr(lr)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1].removeprefix("network_run: ")
    gradients = torch.load(path)["gradients"]
    os.remove(path)
    return gradients, ""


def first_line(error):
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:160] if lines else ''}"


def check(network, folder, program):
    """The row of a network."""
    zoo.prepare(network, folder)
    data = torch.load(f"{folder}/data.pth")
    try:
        joint, members = joint_gradients(folder, data)
    except Exception as e:  # of any part of PyTorch
        return {"good": True, "converted": False, "note": f"no joint graph: {first_line(e)}"}
    mine, error = gtrain_gradients(program, folder, network.lr)
    if error:  # make check-zoo counts the networks that gtrain imports
        return {"good": True, "converted": False, "note": error}
    double = autograd_gradients(zoo.to_float64(zoo.load(folder)), data, torch.float64)
    rounding = [zoo.tensor_distances(autograd_gradients(zoo.load(folder), data), double)]  # of PyTorch's own
    if not zoo.compare_tensors(joint, double, rounding)["good"] or not zoo.compare_tensors(mine, joint, rounding)["good"]:
        rounding += [zoo.tensor_distances(autograd_gradients(module, data), double) for module in zoo.load_nearby(folder)]
    own = zoo.compare_tensors(joint, double, rounding)
    if not own["good"]:
        return {"good": True, "converted": False, "note": f"the joint graph is not autograd's: {own['worst']} is {own['distance']:.1e} away"}
    missing = sorted(names[0] for names in members if joint.keys().isdisjoint(names) != mine.keys().isdisjoint(names))
    row = zoo.compare_tensors(mine, joint, rounding)
    note = f"on one side alone: {', '.join(missing[:3])}" if missing else "agrees" if row["good"] else f"differs: {row['worst']}"
    return {"good": row["good"] and not missing, "converted": True, "tensors": len(mine), "distance": row["distance"], "torch": row["torch"], "note": note}


def cells(name, row):
    numbers = [str(row["tensors"]), f"{row['distance']:.1e}", f"{row['torch']:.1e}"] if "tensors" in row else [""] * 3
    return [name, *numbers, row["note"]]


def line(values):
    return "  ".join(v.ljust(w) if i in (0, 4) else v.rjust(w) for i, (v, w) in enumerate(zip(values, [26, 7, 8, 9, 0]))).rstrip()


def check_once(network, args, results):
    """A network is skipped while gtrain and its file are the same."""
    folder = f"{args.folder}/{network.name}"
    key = repr([zoo.digest(args.run), zoo.prepare(network, folder)["hash"]])
    if results.get(network.name, {}).get("key") == key:
        return results[network.name]
    return {**check(network, folder, os.path.abspath(args.run)), "key": key}


def main():
    parser = argparse.ArgumentParser(prog="check-zoo-joint")
    parser.add_argument("--run", required=True, help="the program network_run")
    parser.add_argument("--folder", required=True, help="where networks and results are kept")
    parser.add_argument("--only", help="name of a network, or a part of names")
    args = parser.parse_args()
    rows = zoo.chosen(args.only)
    if not rows:
        sys.exit(f"check-zoo-joint: no network is called '{args.only}'")
    torch.set_num_threads(zoo.THREADS)
    os.makedirs(args.folder, exist_ok=True)
    path, found = f"{args.folder}/joint.json", []
    print(line(COLUMNS), flush=True)
    for network in rows:
        row = check_once(network, args, zoo.read(path))
        zoo.save(path, {**zoo.read(path), network.name: row})
        print(line(cells(network.name, row)), flush=True)
        found.append(row)
    good, converted = sum(row["good"] for row in found), sum(row["converted"] for row in found)
    print(f"{converted} of {len(rows)} networks have a joint graph, and {len(rows) - good} of these differ from it")
    sys.exit(good < len(rows) or (not args.only and converted < CONVERTED))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    main()
