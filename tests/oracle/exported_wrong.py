"""exported_wrong.py - files of torch.export.save() that are wrong: each has an error of one line, which names the file and the fault.

A row of WRONG makes one fault in the records of a small good archive, in the JSON of its weights or of its graph, or in its bytes.
"""
import copy
import io
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import GTRAIN, TESTS  # noqa: E402: skips a python without torch
import exported  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import tap  # noqa: E402

GRAPH, WEIGHTS, FIRST = "net/models/model.json", "net/data/weights/model_weights_config.json", "net/data/weights/weight_0"


def good(folder):
    """A small archive: its bytes."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(1), nn.Linear(8, 3))
    exported.save(module.train(), torch.randn(2, 6), f"{folder}/good.pt2")
    with open(f"{folder}/good.pt2", "rb") as f:
        return f.read()


# ---- where a fault is made: each takes the bytes of the good archive and returns wrong ones ----

def unpack(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def pack(records):
    """Records may also be a list of pairs, in which names repeat."""
    made = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(made, "w") as archive:
            for name, data in records.items() if isinstance(records, dict) else records:
                archive.writestr(name, data)
    return made.getvalue()


def in_records(change):
    """change(records) returns the new ones, or None: it has changed them."""
    def make(data):
        records = unpack(data)
        return pack(change(records) or records)
    return make


def without(name):
    return in_records(lambda records: {k: v for k, v in records.items() if k != name})


def record(name, data):
    """Another content of a record: bytes, or a function of the present ones."""
    return in_records(lambda records: {**records, name: data(records[name]) if callable(data) else data})


def in_json(name, change):
    """change(document) changes it."""
    def edit(data):
        document = json.loads(data)
        change(document)
        return json.dumps(document)
    return record(name, edit)


def in_graph(change):
    return in_json(GRAPH, lambda d: change(d["graph_module"]["graph"], d["graph_module"]["signature"]))


def in_node(target, change):
    """change(node) of the first node that calls a function."""
    return in_graph(lambda graph, _: change(next(n for n in graph["nodes"] if n["target"].startswith(f"torch.ops.aten.{target}."))))


def in_argument(target, name, value):
    """Another value of an argument; None: no such argument."""
    def change(node):
        rest = [i for i in node["inputs"] if i["name"] != name]
        node["inputs"] = rest + ([] if value is None else [{"name": name, "arg": value, "kind": 1}])
    return in_node(target, change)


def in_weight(change):
    """change(row) of the first weight, [8, 6], in the list of weights."""
    return in_json(WEIGHTS, lambda d: change(d["config"]["0.weight"]))


def sizes(*values):
    return in_weight(lambda row: row["tensor_meta"].update(sizes=[{"as_int": n} for n in values]))


def called(name):
    return lambda node: node.update(target=name)


def reads(name):
    return {"as_tensor": {"name": name}}


def flip(data):
    """Another byte in the middle of the first weight, whose checksum stays."""
    at = data.index(unpack(data)[FIRST]) + 50
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def twice(records):
    return [*records.items(), (FIRST, records[FIRST])]


def other_folder(records):
    return {("other/" if k.endswith("weight_1") else "net/") + k.split("/", 1)[1]: v for k, v in records.items()}


def later(graph, _):
    """The first node reads the result of the last one."""
    graph["nodes"][0]["inputs"][0]["arg"] = graph["nodes"][-1]["outputs"][0]


def itself(node):
    node["inputs"][0]["arg"] = node["outputs"][0]


def same_name(graph, _):
    graph["nodes"][-1]["outputs"] = graph["nodes"][0]["outputs"]


def like_input(graph, _):
    graph["nodes"][0]["outputs"] = [graph["inputs"][-1]]


def repeated_key(data):
    return data.replace(b'"schema_version"', b'"verifiers": [], "schema_version"')


def spec(kind):
    """The list of inputs or of outputs."""
    return lambda change: in_graph(lambda _, signature: change(signature[f"{kind}_specs"]))


inputs, outputs = spec("input"), spec("output")

WRONG = {  # what is wrong: how it is made from the good file, what the message says
    # the bytes
    "empty": (lambda data: b"", ["empty"]),
    "a text": (lambda data: b"import torch\n" * 40, ["no known format"]),
    "cut in the middle": (lambda data: data[:len(data) // 2], ["cut"]),
    "cut in the list of records": (lambda data: data[:-30], ["cut"]),
    "without its beginning": (lambda data: data[200:], []),
    "one byte of a weight": (flip, ["weight_0", "CRC"]),
    # the records
    "an archive of other files": (lambda data: pack({"hello.txt": b"hello"}), []),
    "no graph": (without(GRAPH), ["PyTorch 2.9"]),
    "no list of weights": (without(WEIGHTS), ["weights_config.json"]),
    "no elements of a weight": (without(FIRST), ["weight_0"]),
    "a weight that is too short": (record(FIRST, lambda data: data[:-4]), ["0.weight", "element 47", "has 47"]),
    "a record twice": (in_records(twice), ["two records", "weight_0"]),
    "a record in another folder": (in_records(other_folder), ["weight_1"]),
    "another byte order": (record("net/byteorder", b"middle"), ["byteorder", "neither"]),
    # the list of weights
    "weights outside of the archive": (in_weight(lambda row: row.update(path_name="../../../weight_0")), ["../../../weight_0"]),
    "weights in another file": (in_weight(lambda row: row.update(path_name="/etc/hostname")), ["/etc/hostname"]),
    "weights without a path": (in_weight(lambda row: row.pop("path_name")), ["0.weight", "path_name"]),
    "a pickled weight": (in_weight(lambda row: row.update(use_pickle=True)), ["0.weight", "pickle"]),
    "a list of weights that is cut": (record(WEIGHTS, lambda data: data[:-20]), ["weights_config.json", "JSON"]),
    "a list of weights that is a list": (record(WEIGHTS, b"[1, 2]"), ["weights_config.json"]),
    "a list of weights of great depth": (record(WEIGHTS, b'{"config": ' + b"[" * 5000 + b"]" * 5000 + b"}"), ["weights_config.json", "depth"]),
    "a weight without sizes": (in_weight(lambda row: row.pop("tensor_meta")), ["0.weight"]),
    "a negative size": (sizes(-8, 6), ["0.weight", "negative"]),
    "a size beyond the record": (sizes(1 << 40, 6), ["0.weight"]),
    "sizes whose product overflows": (sizes(1 << 32, 1 << 32), ["0.weight"]),
    "more dimensions than any tensor": (sizes(*[1] * 200), ["0.weight", "32 dimensions"]),
    "strides beyond the record": (in_weight(lambda row: row["tensor_meta"].update(strides=[{"as_int": 1000}, {"as_int": 1}])), ["0.weight"]),
    "fewer strides than sizes": (in_weight(lambda row: row["tensor_meta"].update(strides=[{"as_int": 1}])), ["0.weight", "strides"]),
    "an offset beyond the record": (in_weight(lambda row: row["tensor_meta"].update(storage_offset={"as_int": 40})), ["0.weight"]),
    "a negative offset": (in_weight(lambda row: row["tensor_meta"].update(storage_offset={"as_int": -1})), ["0.weight"]),
    "an unknown type": (in_weight(lambda row: row["tensor_meta"].update(dtype=99)), ["0.weight", "99"]),
    "a weight of float64": (lambda data: pack({**(r := unpack(data)), FIRST: r[FIRST] * 2, WEIGHTS: json.dumps(
        (d := json.loads(r[WEIGHTS]), d["config"]["0.weight"]["tensor_meta"].update(dtype=8))[0])}), ["0.weight", "float64"]),
    "other sizes than the graph's": (sizes(6, 8), ["0: matmul", "[6, 8]"]),
    # the graph as JSON
    "a graph that is cut": (record(GRAPH, lambda data: data[:len(data) // 2]), ["the graph", "JSON"]),
    "a graph that is no text": (record(GRAPH, lambda data: data.replace(b'"target"', b'"targ\xff"', 1)), ["the graph", "JSON"]),
    "a graph of great depth": (record(GRAPH, b"[" * 100000), ["the graph", "depth"]),
    "a key twice": (record(GRAPH, repeated_key), ["the graph", "duplicate"]),
    "a graph that is a number": (record(GRAPH, b"8"), []),
    "an older format": (in_json(GRAPH, lambda d: d["schema_version"].update(major=7)), ["version 7", "2.9"]),
    "a decomposed network": (in_json(GRAPH, lambda d: d.update(verifiers=["ATEN"])), ["run_decompositions"]),
    "no nodes": (in_graph(lambda graph, _: graph.pop("nodes")), ["without nodes"]),
    "nodes that are no list": (in_graph(lambda graph, _: graph.update(nodes={})), ["without nodes"]),
    "no types": (in_graph(lambda graph, _: graph.pop("tensor_values")), ["tensor_values"]),
    # inputs and outputs
    "no inputs": (inputs(lambda specs: specs.clear()), ["no tensor as its data"]),
    "weights alone as inputs": (inputs(lambda specs: specs.pop()), ["no tensor as its data"]),
    "a weight that the archive lacks": (inputs(lambda specs: specs[0]["parameter"].update(parameter_name="1.wait")), ["1.wait"]),
    "two names of one argument": (inputs(lambda specs: specs[0]["parameter"].update(arg={"name": "p_0_bias"})), ["two inputs", "p_0_bias"]),
    "a weight without a name": (inputs(lambda specs: specs[0]["parameter"].pop("parameter_name")), ["without a name"]),
    "a weight twice": (inputs(lambda specs: specs.insert(1, specs[0])), ["two inputs", "0.weight"]),
    "an input of an unknown kind": (inputs(lambda specs: specs.append({"stream": {}})), ["no tensor"]),
    "no output": (outputs(lambda specs: specs.clear()), ["returns no tensor"]),
    "two outputs": (outputs(lambda specs: specs.append(specs[0])), ["several tensors"]),
    "an output that no node computes": (outputs(lambda specs: specs[0]["user_output"].update(arg=reads("nowhere"))), ["no node computes"]),
    # nodes
    "an unknown function": (in_node("relu", called("torch.ops.aten.reluu.default")), ["reluu.default", "net.py:"]),
    "another form of a function": (in_node("relu", called("torch.ops.aten.relu.out")), ["relu.out", "it has relu.default"]),
    "a function of another library": (in_node("relu", called("torch.ops.mine.relu.default")), ["torch.ops.mine.relu.default"]),
    "a branch": (in_node("relu", called("torch.ops.higher_order.cond")), ["torch.ops.higher_order.cond"]),
    "a node without a function": (in_node("relu", lambda node: node.pop("target")), ["has no target"]),
    "a node without arguments": (in_node("relu", lambda node: node.pop("inputs")), ["relu"]),
    "a node without a result": (in_node("relu", lambda node: node.update(outputs=[])), ["relu"]),
    "a node that is a number": (in_graph(lambda graph, _: graph["nodes"].insert(0, 7)), ["node 0", "no target"]),
    "a tensor that no node computes": (in_argument("relu", "self", reads("nowhere")), ["relu", "'self'", "known"]),
    "a node that reads its own result": (in_node("relu", itself), ["relu", "known"]),
    "a cycle of nodes": (in_graph(later), ["known"]),
    "a result with the name of another": (in_graph(same_name), ["name of another"]),
    "a result with the name of the input": (in_graph(like_input), ["name of another"]),
    "a missing argument": (in_argument("linear", "weight", None), ["linear", "'weight'"]),
    "an argument of another kind": (in_argument("batch_norm", "eps", {"as_string": "much"}), ["eps", "as_string"]),
    "an argument of two kinds": (in_argument("batch_norm", "eps", {"as_float": 1.0, "as_int": 1}), ["eps"]),
    "a probability above 1": (in_argument("dropout", "p", {"as_float": 1.5}), ["dropout", "1.5"]),
    "a dimension that a tensor lacks": (in_argument("flatten", "start_dim", {"as_int": 9}), ["flatten", "9"]),
    "a number that is too large": (in_argument("flatten", "start_dim", {"as_int": 1 << 40}), ["flatten"]),
}


@tap.cases(WRONG)
def has_one_line(folder, name):
    make, words = WRONG[name]
    data = make(good(folder))
    assert data != good(folder), "the file is the good one"
    path = f"{folder}/wrong.pt2"
    with open(path, "wb") as f:
        f.write(data)
    done = subprocess.run([GTRAIN, "train", "--model", path, "--data", "random:6/3", "--steps", "1", "--out", f"{folder}/run"], capture_output=True, text=True, timeout=60)
    said = done.stderr.splitlines()
    assert done.returncode == 1 and not done.stdout, (done.returncode, done.stderr)
    assert said[0].startswith("gtrain: error: ") and "wrong.pt2" in said[0] and len(said) <= 2, done.stderr
    assert not said[1:] or said[1].startswith("hint: "), done.stderr
    assert all(w in done.stderr for w in words), (words, done.stderr)
    if os.environ.get("SHOW"):
        print(f"# {name}: " + re.sub(r"/\S*/", "", done.stderr.strip()).replace("\n", "\n#     "))
    assert not os.path.exists(f"{folder}/run"), "a run directory is left behind"


@tap.cases([""])
def good_one_trains(folder, _):
    """The faults above are the only ones."""
    good(folder)
    done = subprocess.run([GTRAIN, "train", "--model", f"{folder}/good.pt2", "--data", "random:6/3", "--steps", "1", "--out", f"{folder}/run", "-q"],
                          capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    data = open(f"{folder}/good.pt2", "rb").read()
    assert unpack(pack(copy.copy(unpack(data)))) == unpack(data)


@tap.cases([""])
def cut_anywhere(folder, _):
    """A file that is cut anywhere has one error, and never a crash."""
    data, path = good(folder), f"{folder}/cut.pt2"
    for at in range(0, len(data), max(1, len(data) // 12)):
        with open(path, "wb") as f:
            f.write(data[:at])
        done = subprocess.run([GTRAIN, "train", "--model", path, "--data", "random:6/3", "--steps", "1"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr.startswith("gtrain: error: "), done.stderr


sys.exit(tap.run(tap.parts, os.path.join(TESTS, "model_dump"), sys.argv[1:]))
