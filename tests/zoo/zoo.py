"""zoo.py - the networks of networks.py in gtrain beside PyTorch: gradients, loss curves and times, in a table (make check-zoo).

Each network is exported with weights and batches of its own. PyTorch trains the exported graph in float32 and in float64, and gtrain imports
the same file (network_run.c). Results are kept: a network is skipped while gtrain and the network's files are the same.
"""
import argparse
import collections
import copy
import hashlib
import json
import logging
import os
import statistics
import subprocess
import sys
import time
import warnings

THREADS = int(os.environ.get("OMP_NUM_THREADS", min(2, os.cpu_count() or 1)))  # of both sides
os.environ["OMP_NUM_THREADS"] = str(THREADS)
try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import networks
except ImportError as e:
    sys.exit(f"check-zoo: {sys.executable} has no {e.name}; ZOO_PYTHON must name a python with torch >= 2.9, torchvision, timm and transformers")

REQUIRED = 55  # networks that must pass
STEPS, BATCHES = 20, 5
GRADIENT, CURVE = 1e-4, 1e-5  # largest distances, unless PyTorch's own are larger than half of it
# A tensor that is 0 but for rounding, such as the gradient of a bias before a batch norm, is measured by the norm of all tensors times this.
FLOOR = 1e-3
# Runs of PyTorch from weights that are one rounding apart, if gtrain's differs by more than PyTorch's float32 does: a ReLU or a maximum
# over numbers that are all but equal then goes the other way in some of them, too.
NEARBY = 4
TURNS = 5  # of timed steps


def save(path, value):
    with open(path + ".new", "w") as f:
        json.dump(value, f, indent=1)
    os.replace(path + ".new", path)


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


# ---- exporting ----

def remove_randomness(module):
    """Set all probabilities of dropouts and of stochastic depth to 0, so that curves can be compared."""
    for m in module.modules():
        for name, value in list(vars(m).items()):
            if isinstance(value, float) and ("drop" in name or (name == "p" and type(m).__name__ in ("StochasticDepth", "DropPath"))):
                setattr(m, name, 0.0)
        if isinstance(m, nn.modules.dropout._DropoutNd):
            m.p = 0.0


def random_nodes(exported):
    """Nodes that draw numbers all the same."""
    count = 0
    for node in exported.graph.nodes:
        target = str(node.target)
        values = {a.name: v for a, v in zip(node.target._schema.arguments, node.args)} if hasattr(node.target, "_schema") else {}
        values.update(node.kwargs)
        if "dropout" in target:
            count += bool(values.get("p")) and values.get("train", True)
        count += bool(values.get("dropout_p")) or any(word in target for word in ("bernoulli", "aten.rand", "multinomial", "normal_"))
    return count


def export(module, x):
    """Export for any batch, or for the batch of x where the network is written for one."""
    try:
        return torch.export.export(module, (x,), strict=False, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), True
    except Exception:
        return torch.export.export(module, (x,), strict=False), False


def draw_data(network, module):
    """Batches and targets. The result's shape is that of a float32 copy, so that running statistics stay as they are."""
    def inputs():
        if network.sample is None:
            return torch.randint(0, networks.VOCABULARY, (network.batch, networks.TOKENS), dtype=torch.int32)
        return torch.randn(network.batch, *network.sample)

    def targets():
        if network.targets == "like":
            return torch.rand(shape) if network.name == "own.autoencoder" else torch.randn(shape)
        return torch.randint(0, network.classes, (network.batch, networks.TOKENS) if network.targets == "tokens" else (network.batch,), dtype=torch.int32)

    batches = [inputs() for _ in range(BATCHES)]
    with torch.no_grad():
        shape = copy.deepcopy(module)(as_input(batches[0])).shape
    return {"inputs": batches, "targets": [targets() for _ in range(BATCHES)]}


# ---- PyTorch ----

def as_input(x):
    return x if x.is_floating_point() else x.long()


def loss_of(y, target):
    if target.is_floating_point():
        return F.mse_loss(y, target.to(y.dtype))
    return F.cross_entropy(y.flatten(0, -2), target.flatten().long())


def to_float64(module):
    """Make float64 of every float32 in an exported graph. Checks of types are removed."""
    for node in list(module.graph.nodes):
        if "_assert_tensor_metadata" in str(node.target):
            module.graph.erase_node(node)
            continue
        node.args = tuple(torch.float64 if a is torch.float32 else a for a in node.args)
        node.kwargs = {k: torch.float64 if a is torch.float32 else a for k, a in node.kwargs.items()}
        if node.op == "get_attr" and isinstance(getattr(module, node.target, None), torch.Tensor):
            value = getattr(module, node.target)
            if value.dtype is torch.float32 and not isinstance(value, nn.Parameter) and node.target not in dict(module.named_buffers()):
                setattr(module, node.target, value.double())
    module.recompile()
    return module.double()


def groups(module):
    """Parameters by name; names of tied weights have one entry."""
    by_address = collections.defaultdict(list)
    for name, p in module.named_parameters(remove_duplicate=False):
        by_address[p.data_ptr()].append((name, p))
    return by_address.values()


def gradients(module):
    found = {}
    for members in groups(module):
        distinct = {id(p): p for _, p in members if p.grad is not None}.values()
        total = sum((p.grad.double() for p in distinct), torch.zeros_like(members[0][1], dtype=torch.float64))
        for name, _ in members:
            found[name] = total.float()
    return found


def step(module, call, data, i, dtype=torch.float32):
    """Compute the loss of batch i, which is returned, and its gradients."""
    x, target = data["inputs"][i % BATCHES], data["targets"][i % BATCHES]
    for p in module.parameters():
        p.grad = None
    loss = loss_of(call(x.to(dtype) if x.is_floating_point() else x.long()), target)
    loss.backward()
    return loss.item()


def update(module, lr):
    with torch.no_grad():
        for p in module.parameters():
            if p.grad is not None:
                p.sub_(p.grad, alpha=lr)


def train(module, data, lr, dtype=torch.float32, call=None):
    """Train an exported graph, which is as it is: its train() and eval() must not be called."""
    torch.set_default_dtype(dtype)
    try:
        losses, first = [], None
        for i in range(STEPS):
            losses.append(step(module, module if call is None else call, data, i, dtype))
            first = first or gradients(module)
            update(module, lr)
    finally:
        torch.set_default_dtype(torch.float32)
    return {"losses": losses, "gradients": first, "buffers": {name: b.float() for name, b in module.named_buffers() if b.is_floating_point()}}


# ---- one network's files ----

def stamp(network):
    """What the files of a network depend on, as far as it can be told; FRESH=1 makes them again."""
    import timm
    import torchvision
    import transformers
    versions = [m.__version__ for m in (torch, torchvision, timm, transformers)]
    return repr([network.name, network.sample, network.targets, network.classes, network.batch, network.lr, STEPS, BATCHES, versions])


def prepare(network, folder):
    """Export a network, unless that is done, and return facts about it."""
    path = f"{folder}/facts.json"
    facts = read(path)
    if facts.get("stamp") == stamp(network):
        return facts
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(f"{folder}/reference.pth"):
        os.remove(f"{folder}/reference.pth")
    torch.manual_seed(7)
    module = network.make().train()
    remove_randomness(module)
    data = draw_data(network, module)
    exported, dynamic = export(module, as_input(data["inputs"][0]))
    torch.export.save(exported, f"{folder}/network.pt2")
    torch.save(data, f"{folder}/data.pth")
    counts = collections.Counter(str(n.target) for n in exported.graph.nodes if n.op == "call_function")
    facts = {"stamp": stamp(network), "nodes": sum(counts.values()), "functions": len(counts), "targets": counts, "dynamic": dynamic,
             "random": random_nodes(exported), "hash": digest(f"{folder}/network.pt2")}
    save(path, facts)
    return facts


def train_reference(network, folder, compiled):
    """Train the exported network in PyTorch, unless that is done."""
    path, data = f"{folder}/reference.pth", torch.load(f"{folder}/data.pth")
    reference = torch.load(path) if os.path.exists(path) else {}
    done = len(reference)
    if "float32" not in reference:
        reference["float32"] = train(load(folder), data, network.lr)
    if "float64" not in reference:
        reference["float64"] = train(to_float64(load(folder)), data, network.lr, torch.float64)
    if compiled and "compiled" not in reference:
        module = load(folder)
        reference["compiled"] = train(module, data, network.lr, call=torch.compile(module))
    if len(reference) > done:
        save_reference(path, reference)
    return reference


def move_weights(module, seed):
    """Move each weight of a module by one rounding, up or down, and return the module."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            away = torch.where(torch.rand(p.shape, generator=generator) < 0.5, -torch.inf, torch.inf)
            p.copy_(torch.nextafter(p, away))
    return module


def load_nearby(folder):
    """Networks whose weights are one rounding apart from those of the file."""
    for i in range(NEARBY):
        yield move_weights(load(folder), i)


def train_nearby(network, folder, reference):
    """Add the distances of runs from weights that are one rounding apart."""
    data = torch.load(f"{folder}/data.pth")
    reference["nearby"] = [distances(train(module, data, network.lr), reference["float64"]) for module in load_nearby(folder)]
    save_reference(f"{folder}/reference.pth", reference)


def save_reference(path, reference):
    torch.save(reference, path + ".new")
    os.replace(path + ".new", path)


def load(folder):
    return torch.export.load(f"{folder}/network.pt2").module()


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


# ---- comparing ----

def apart(a, b):
    """Largest distance of two curves of losses, relative to the second."""
    return max(abs(x - y) / max(abs(y), 1e-30) if x == x and y == y else float("inf") for x, y in zip(a, b))


def tensor_distances(a, b):
    """Distance of each tensor of b to that of a with its name, relative to the tensor's norm, or to a part of the norm of all."""
    floor = FLOOR * sum(t.double().norm().item() ** 2 for t in b.values()) ** 0.5
    return {k: float((a[k].double() - b[k].double()).norm() / max(b[k].double().norm().item(), floor, 1e-30)) for k in b if k in a}


def distances(a, b):
    """Distances of two runs of PyTorch."""
    return {"losses": apart(a["losses"], b["losses"]), **{key: tensor_distances(a[key], b[key]) for key in ("gradients", "buffers")}}


def compare_tensors(mine, single, theirs):
    """Compare with PyTorch's tensors, whose own distances to float64 are `theirs`, of several runs. Return the distance of the tensor
    that is furthest, measured by its bound, the tensor's name, and whether all are within their bounds."""
    own = tensor_distances(mine, single)
    theirs = {k: max(run[k] for run in theirs) for k in own}
    over = {k: d / max(GRADIENT, 2 * theirs[k]) for k, d in own.items()}
    worst = max(over, key=over.get, default=None)
    return {"worst": worst, "distance": own.get(worst, 0.0), "torch": theirs.get(worst, 0.0), "good": all(v <= 1 for v in over.values())}


def compare(result, reference):
    single, double = reference["float32"], reference["float64"]
    theirs = [distances(single, double), *reference.get("nearby", [])]
    curves = {"distance": apart(result["losses"], single["losses"]), "float64": apart(result["losses"], double["losses"]),
              "torch": max(run["losses"] for run in theirs)}
    if "compiled" in reference:
        curves["compiled"] = apart(reference["compiled"]["losses"], single["losses"])
    curves["bound"] = max(CURVE, 2 * curves["torch"], 2 * curves.get("compiled", 0))
    curves["good"] = min(curves["distance"], curves["float64"]) <= curves["bound"]
    missing = sorted(set(result["gradients"]) - set(single["gradients"]))
    grads, buffers = (compare_tensors(result[mine], single[key], [run[key] for run in theirs])
                      for mine, key in (("gradients", "gradients"), ("final", "buffers")))
    return {"curve": curves, "gradients": grads, "buffers": buffers, "missing": missing, "losses": [single["losses"][0], single["losses"][-1]],
            "nearby": len(theirs) - 1, "good": curves["good"] and grads["good"] and buffers["good"] and not missing}


# ---- gtrain ----

class Runner:
    """network_run: trains, then answers each line by the time of one more step."""

    def __init__(self, program, folder, lr):
        self.errors = open(f"{folder}/errors.txt", "w+")
        self.process = subprocess.Popen([program, f"{folder}/network.pt2", f"{folder}/data.pth", f"{folder}/result.pth", str(STEPS), repr(lr)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def time(self):
        """Milliseconds of one more step; None: the program has ended."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return float(line) if line else None

    def error(self):
        status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1].removeprefix("network_run: ").removeprefix("'network.pt2': ") if lines else f"network_run ended with status {status}"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


def time_torch(module, call, data, lr):
    began = time.monotonic()
    step(module, call, data, 0)
    update(module, lr)
    return 1e3 * (time.monotonic() - began)


def take_turns(runner, folder, data, network, compiled):
    """Median times of steps of gtrain, PyTorch, and PyTorch compiled."""
    sides = {"gtrain": runner.time}
    eager = load(folder)
    sides["eager"] = lambda: time_torch(eager, eager, data, network.lr)
    if compiled:
        other = load(folder)
        call = torch.compile(other)
        sides["compiled"] = lambda: time_torch(other, call, data, network.lr)
    times = collections.defaultdict(list)
    for turn in range(TURNS + 1):
        for name, side in sides.items():
            ms = side()
            if turn and ms is not None:
                times[name].append(ms)
    return {name: statistics.median(ms) for name, ms in times.items()}


def check(network, folder, program, compiled):
    facts = prepare(network, folder)
    row = {k: facts[k] for k in ("nodes", "functions", "dynamic", "random")}
    data = torch.load(f"{folder}/data.pth")
    runner = Runner(program, folder, network.lr)
    try:
        if runner.time() is None:
            return {**row, "good": False, "error": runner.error()}
        result = torch.load(f"{folder}/result.pth")
        os.remove(f"{folder}/result.pth")
        reference = train_reference(network, folder, compiled)
        compared = compare(result, reference)
        if not compared["good"] and "nearby" not in reference:
            train_nearby(network, folder, reference)
            compared = compare(result, reference)
        return {**row, **compared, "ms": take_turns(runner, folder, data, network, compiled)}
    finally:
        runner.close()


# ---- the table ----

COLUMNS = ["network", "functions", "nodes", "gradient", "curve", "bound", "to float64", "PyTorch's", "ms", "eager", "compiled", "result"]


def cells(name, row):
    if "curve" not in row:
        numbers = [""] * 8
    else:
        c, ms = row["curve"], row.get("ms", {})
        numbers = [f"{row['gradients']['distance']:.1e}", *(f"{c[k]:.1e}" for k in ("distance", "bound", "float64", "torch")),
                   *(f"{ms[k]:.1f}" if k in ms else "" for k in ("gtrain", "eager", "compiled"))]
    return [name, str(row.get("functions", "")), str(row.get("nodes", "")), *numbers, verdict(row)]


def verdict(row):
    notes = ["passes"] if row["good"] else [row["error"]] if "error" in row else ["differs: " + ", ".join(differing(row))]
    if row.get("random"):
        notes.append(f"{row['random']} nodes are random")
    if row.get("dynamic") is False:
        notes.append("fixed batch")
    return "; ".join(notes)


def differing(row):
    for key in ("curve", "gradients", "buffers"):
        if not row[key]["good"]:
            worst = row[key].get("worst")
            yield key if not worst else f"{key} (of {worst}: {row[key]['distance']:.1e}, PyTorch's {row[key]['torch']:.1e})"
    if row["missing"]:
        yield f"PyTorch has no gradient of {', '.join(row['missing'][:3])}"


def line(values):
    widths = [26, 9, 5, 8, 8, 8, 10, 9, 8, 8, 8, 0]
    return "  ".join(v.ljust(w) if i in (0, len(widths) - 1) else v.rjust(w) for i, (v, w) in enumerate(zip(values, widths))).rstrip()


def write_table(path, results):
    with open(path, "w") as f:
        print("| " + " | ".join(COLUMNS) + " |", file=f)
        print("|" + " --- |" * len(COLUMNS), file=f)
        for n in networks.NETWORKS:
            if n.name in results:
                print("| " + " | ".join(cells(n.name, results[n.name])).replace("\n", " ") + " |", file=f)


def chosen(only):
    rows = [n for n in networks.NETWORKS if not only or n.name == only or n.name.split(".", 1)[1] == only]
    return rows or [n for n in networks.NETWORKS if only in n.name]


def check_once(network, folder, binary, args, results):
    """Return the row of a network: that of `results` if it has one of the same program and file."""
    if args.fresh and os.path.exists(f"{folder}/facts.json"):
        os.remove(f"{folder}/facts.json")
    try:
        key = repr([binary, prepare(network, folder)["hash"], args.compile])
        if results.get(network.name, {}).get("key") == key and not args.fresh:
            return results[network.name]
        return {**check(network, folder, os.path.abspath(args.run), args.compile), "key": key}
    except Exception as e:
        lines = str(e).strip().splitlines()
        return {"good": False, "error": f"PyTorch: {type(e).__name__}: {lines[0][:200] if lines else ''}"}


def main():
    parser = argparse.ArgumentParser(prog="check-zoo")
    parser.add_argument("--run", required=True, help="the program network_run")
    parser.add_argument("--folder", required=True, help="where networks and results are kept")
    parser.add_argument("--only", help="name of a network, or a part of names")
    parser.add_argument("--compile", action="store_true", help="time torch.compile, too")
    parser.add_argument("--fresh", action="store_true", help="export networks and train them in PyTorch again")
    args = parser.parse_args()
    rows = chosen(args.only)
    if not rows:
        sys.exit(f"check-zoo: no network is called '{args.only}'")
    torch.set_num_threads(THREADS)
    os.makedirs(args.folder, exist_ok=True)
    path, binary = f"{args.folder}/results.json", digest(args.run)
    print(line(COLUMNS), flush=True)
    good = 0
    for network in rows:
        row = check_once(network, f"{args.folder}/{network.name}", binary, args, read(path))
        results = {**read(path), network.name: row}  # another run may have added rows meanwhile
        save(path, results)
        write_table(f"{args.folder}/table.md", results)
        print(line(cells(network.name, row)), flush=True)
        good += row["good"]
    required = REQUIRED if not args.only else len(rows)
    print(f"{good} of {len(rows)} networks pass; {required} must")
    sys.exit(good < required)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    main()
