#!/usr/bin/python3
"""
dcp.py - PyTorch's distributed checkpoints (DCP), read and written, and folders that were damaged on purpose.

Debian's PyTorch 1.13 writes such folders with torch.distributed._shard.checkpoint, by one process and by two gloo ranks. Folders as
PyTorch 2 writes them are made by hand. HF_PYTHON names a python with a newer PyTorch: then that one writes folders, too, and loads
those that gtrain has written.
"""
import copy
import io
import os
import pickle
import resource
import subprocess
import sys

try:
    import torch
except ImportError:
    print("1..0 # SKIP torch: python has none")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from dcp_folder import METADATA, Call, Hand, fake, size  # noqa: E402

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
NEW_PYTHON = os.environ.get("HF_PYTHON")


# ---- with PyTorch's own writer, in processes of their own: dcp.py --write KIND FOLDER RANK WORLD ----

def tensors():
    torch.manual_seed(1)
    return {"a.weight": torch.randn(7, 4), "a.bias": torch.randn(7).to(torch.bfloat16), "count": torch.tensor(12),
            "empty": torch.zeros(0, 3), "t": torch.randn(5, 3).t()}


def nested():
    t = tensors()
    return {"model": t, "optim": {"state": {0: {"exp_avg": torch.randn(3, 2), "step": torch.tensor(4.0)}},
                                  "param_groups": [{"lr": 0.1, "params": [0]}]},
            "parts": [torch.ones(2), 3, [torch.zeros(1)]],
            "names": ["x", "y"], "epoch": 3, "none": None, "pair": (1, "two")}


def import_old():
    """torch.distributed._shard of PyTorch 1.13; Python 3.11 wants the defaults of its dataclasses to be hashable."""
    import dataclasses
    plain = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda cls: hashable(cls, **options)
        return plain(cls, **options) if "__hash__" in vars(cls) else plain(cls, **{"unsafe_hash": True, **options})

    dataclasses.dataclass = hashable
    try:
        from torch.distributed._shard import checkpoint, sharded_tensor
    finally:
        dataclasses.dataclass = plain
    return checkpoint, sharded_tensor


def rows_of(full, rank, world):
    """The rows of a rank: their start, and their tensor."""
    first, end = full.shape[0] * rank // world, full.shape[0] * (rank + 1) // world
    return first, full[first:end].clone()


def write_old(folder, rank, world):
    checkpoint, sharded = import_old()
    full = tensors()
    full.pop("empty")
    state = dict(full, epoch=3, names=["x", "y"])
    if rank == 0:
        torch.save(state, folder + ".pth")
    if world > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}.meet", rank=rank, world_size=world)
        for name in ("a.weight", "t"):
            first, rows = rows_of(full[name].contiguous(), rank, world)
            shard = sharded.Shard.from_tensor_and_offsets(rows, [first, 0], rank)
            state[name] = sharded.init_from_local_shards([shard], list(full[name].shape))
    checkpoint.save_state_dict(state, checkpoint.FileSystemWriter(folder, single_file_per_rank=world > 1), no_dist=world == 1)


def write_new(folder, rank, world):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    state = nested()
    if world > 1:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        dist.init_process_group("gloo", init_method=f"file://{folder}.meet", rank=rank, world_size=world)
        mesh = init_device_mesh("cpu", (world,))
        state["model"]["a.weight"] = distribute_tensor(state["model"]["a.weight"], mesh, [Shard(0)])
        state["model"]["t"] = distribute_tensor(state["model"]["t"].contiguous(), mesh, [Shard(1)])
        state["model"]["square"] = distribute_tensor(torch.arange(36.0).reshape(3, 4, 3), mesh, [Shard(1)])
        from torch.distributed.fsdp import fully_shard
        net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        fully_shard(net, mesh=mesh)
        state["fsdp"] = net.state_dict()
        state["ddp"] = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3)).state_dict()
    dcp.save(state, checkpoint_id=folder)
    if rank == 0:
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
        dcp_to_torch_save(folder, folder + ".pth")


def load_new(folder, rank, world):
    """What PyTorch loads of a folder: into a state_dict of zeros, and by dcp_to_torch_save()."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    def zeros(value):
        if isinstance(value, dict):
            return {key: zeros(item) for key, item in value.items()}
        if isinstance(value, list):
            return [zeros(item) for item in value]
        return torch.zeros_like(value) if isinstance(value, torch.Tensor) else None

    state = zeros(nested())
    dcp.load(state, checkpoint_id=folder)
    same(nested(), state, "dcp.load()")
    dcp_to_torch_save(folder, folder + ".pth")


def start(python, kind, folder, world):
    """Run the function of that name above, by as many processes."""
    env = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    ranks = [subprocess.Popen([python, os.path.abspath(__file__), "--run", kind, folder, str(rank), str(world)], stderr=subprocess.PIPE,
                              text=True, env=env) for rank in range(world)]
    errors = [rank.communicate()[1] for rank in ranks]
    for rank, error in zip(ranks, errors):
        assert rank.returncode == 0, error[-2000:]


# ---- comparing ----

def same(a, b, where=""):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor) and (a.dtype, a.shape) == (b.dtype, b.shape), f"{where}: {type(b)}"
        a, b = (bytes(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy()) if x.numel() else b"" for x in (a, b))
        assert a == b, f"{where}: other elements"
    elif isinstance(a, dict):
        assert isinstance(b, dict) and list(a) == list(b), f"{where}: {list(a)} and {list(b)}"
        for key in a:
            same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b), f"{where}: {a} and {b}"
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]")
    else:
        assert type(a) is type(b) and a == b, f"{where}: {a!r} and {b!r}"


def load(path):
    return torch.load(path) if torch.__version__ < "2" else torch.load(path, weights_only=False)


def gtrain(*args):
    return subprocess.run([GTRAIN, "ckpt", *map(str, args)], capture_output=True, text=True, errors="replace")


def convert(source, output, *more):
    done = gtrain("convert", source, "-o", output, *more)
    assert done.returncode == 0, done.stderr
    return output


# ---- folders made by hand ----

GRID = [((0, 0), (4, 2)), ((0, 2), (4, 3)), ((4, 0), (2, 2)), ((4, 2), (2, 3))]
HALVES = [((0, 0), (4, 5)), ((4, 0), (2, 5))]


def small():
    hand = Hand()
    hand.add("w", torch.arange(30.0).reshape(6, 5), HALVES)
    hand.add("b", torch.arange(5, dtype=torch.int64))
    hand.add("n", [1, "two"])
    return hand


# ---- the parts ----

@tap.cases(["one process", "two ranks"])
def old_pytorch(folder, name):
    world = 1 + (name == "two ranks")
    start("/usr/bin/python3" if NEW_PYTHON else sys.executable, "write_old", f"{folder}/dcp", world)
    same(load(f"{folder}/dcp.pth"), load(convert(f"{folder}/dcp", f"{folder}/out.pth")))
    done = gtrain("verify", f"{folder}/dcp")
    assert done.returncode == 0, done.stdout
    done = gtrain("diff", f"{folder}/dcp", f"{folder}/dcp.pth")
    assert done.returncode == 0, done.stdout


if NEW_PYTHON:
    @tap.cases(["one process", "two ranks: DTensor, FSDP2, DDP"])
    def new_pytorch(folder, name):
        world = 2 if "two" in name else 1
        start(NEW_PYTHON, "write_new", f"{folder}/dcp", world)
        convert(f"{folder}/dcp", f"{folder}/out.pth")
        same(load(f"{folder}/dcp.pth"), load(f"{folder}/out.pth"))
        assert gtrain("verify", f"{folder}/dcp").returncode == 0

    @tap.cases([""])
    def loaded_by_new_pytorch(folder, _):
        torch.save(nested(), f"{folder}/in.pth")
        convert(f"{folder}/in.pth", f"{folder}/dcp", "--to", "dcp")
        start(NEW_PYTHON, "load_new", f"{folder}/dcp", 1)
        expected = nested()
        expected["optim"]["state"] = {"0": expected["optim"]["state"][0]}  # keys of dicts become strings
        same(expected, load(f"{folder}/dcp.pth"))


BOXES = {
    "a grid of four": (6, 5), "columns": (4, 9), "blocks of three dimensions": (4, 3, 4), "one row each": (5, 2), "an empty chunk": (3, 2),
    "large rows": (300, 2000), "large columns": (3000, 200), "a vector of many": (100000,),
}


def boxes_of(name, shape):
    if name == "a grid of four":
        return GRID
    if name == "blocks of three dimensions":
        return [((i, j, k), (2, 3 - 2 * (j > 0) - (j == 0), 2)) for i in (0, 2) for j in (0, 2) for k in (0, 2)]
    if name == "an empty chunk":
        return [((0, 0), (3, 2)), ((3, 0), (0, 2))]
    dim = len(shape) - 1 if "columns" in name else 0
    cuts = sorted({shape[dim] * i // 7 for i in range(8)} if name != "one row each" else range(shape[0] + 1))
    return [(tuple(a if d == dim else 0 for d in range(len(shape))), tuple(b - a if d == dim else shape[d] for d in range(len(shape))))
            for a, b in zip(cuts, cuts[1:])]


@tap.cases(list(BOXES))
def chunks(folder, name):
    hand, shape = Hand(), BOXES[name]
    torch.manual_seed(2)
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        value = (torch.randn(*shape) * 50).to(dtype)
        boxes = boxes_of(name, shape)
        hand.add(str(dtype), value, boxes[::-1])
    hand.write(f"{folder}/dcp")
    same(hand.full, load(convert(f"{folder}/dcp", f"{folder}/out.pth")))
    convert(f"{folder}/dcp", f"{folder}/out.safetensors")
    for other in ("out.pth", "out.safetensors"):
        done = gtrain("diff", f"{folder}/dcp", f"{folder}/{other}")
        assert done.returncode == 0, done.stdout + done.stderr
    assert gtrain("verify", "--strict", f"{folder}/dcp").returncode == 0


@tap.cases([""])
def more_files_than_the_soft_limit(folder, _):
    hand, n = Hand(), 70
    hand.add("w", torch.arange(2.0 * n).reshape(n, 2), [((i, 0), (1, 2)) for i in range(n)])
    hand.write(f"{folder}/dcp")
    few = (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    done = subprocess.run([GTRAIN, "ckpt", "convert", f"{folder}/dcp", "-o", f"{folder}/out.pth"], capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))
    assert done.returncode == 0, done.stderr
    same(hand.full, load(f"{folder}/out.pth"))


@tap.cases([""])
def paths(folder, _):
    hand = Hand()
    hand.add("m.x", torch.ones(2), path=("m", "x"))
    hand.add("m.l.2", torch.zeros(1), path=("m", "l", 2))
    hand.add("m.l.0.k", 5, path=("m", "l", 0, "k"))
    hand.add("flat.name", None)
    del hand.metadata.planner_data["flat.name"]
    hand.write(f"{folder}/dcp")
    same({"m": {"x": torch.ones(2), "l": [{"k": 5}, None, torch.zeros(1)]}, "flat.name": None},
         load(convert(f"{folder}/dcp", f"{folder}/out.pth")))


@tap.cases([""])
def written(folder, _):
    """The folder that gtrain writes, read by the rules at the top of lib/ckpt/dcp/metadata.c; then by gtrain."""
    torch.save(nested(), f"{folder}/in.pth")
    convert(f"{folder}/in.pth", f"{folder}/dcp", "--to", "dcp")
    assert sorted(os.listdir(f"{folder}/dcp")) == [".metadata", "__0_0.distcp"]
    Hand()  # makes the classes
    fake(METADATA, "_MEM_FORMAT_ENCODING")
    fake(METADATA).TensorProperties.__setstate__ = lambda p, state: p.__dict__.update(state=state)
    with open(f"{folder}/dcp/.metadata", "rb") as f:
        metadata = pickle.load(f)
    with open(f"{folder}/dcp/__0_0.distcp", "rb") as f:
        content = f.read()
    values = {}
    for index, info in metadata.storage_data.items():
        entry = metadata.state_dict_metadata[index.fqn]
        values[index.fqn] = value = load(io.BytesIO(content[info.offset:info.offset + info.length]))
        if isinstance(value, torch.Tensor):
            assert entry.size == entry.chunks[0].sizes == value.shape and index.offset == entry.chunks[0].offsets
            assert entry.properties.state[0] == value.dtype and value.is_contiguous()
        assert ".".join(map(str, metadata.planner_data[index.fqn])) == index.fqn
    same(values["optim.state.0.exp_avg"], nested()["optim"]["state"][0]["exp_avg"])
    same(values["parts.2.0"], torch.zeros(1))
    same(values["names"], ["x", "y"])
    expected = nested()
    expected["optim"]["state"] = {"0": expected["optim"]["state"][0]}
    same(expected, load(convert(f"{folder}/dcp", f"{folder}/again.pth")))
    refused(gtrain("convert", f"{folder}/in.pth", "-o", f"{folder}/dcp", "--to", "dcp"), "File exists")
    convert(f"{folder}/in.pth", f"{folder}/half", "--to", "dcp", "--dtype", "bf16")
    half = load(convert(f"{folder}/half", f"{folder}/half.pth"))
    assert half["model"]["a.weight"].dtype == torch.bfloat16 and half["optim"]["state"]["0"]["step"].dtype == torch.float32


# ---- damage: (name, what is done to small(), a part of the error) ----

def refused(done, text):
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("gtrain: error: ")]
    assert done.returncode == 1 and len(errors) == 1 and not any("Sanitizer" in line for line in lines), done.stderr or "no error"
    assert text in errors[0], errors[0]


def setter(what, **state):
    return lambda hand: what(hand).__dict__.update(state)


def index_of(hand, name):
    return [index for index in hand.metadata.storage_data if index.fqn == name]


def drop_place(hand, name):
    del hand.metadata.storage_data[index_of(hand, name)[0]]


def replace_item(hand, value, i=0):
    """Put another object into the archive of a chunk."""
    out, info = io.BytesIO(), hand.place(i)
    torch.save(value, out) if not isinstance(value, bytes) else out.write(value)
    hand.files["x.distcp"] = out.getvalue()
    info.__dict__.update(relative_path="x.distcp", offset=0, length=len(out.getvalue()))


def flip(hand, at, file="__0_0.distcp"):
    content = bytearray(hand.files[file])
    content[at] ^= 0x40
    hand.files[file] = bytes(content)


def flip_data(hand):
    """A bit of the first tensor's elements: 1.0 is in them."""
    flip(hand, hand.files["__0_0.distcp"].index(torch.arange(3.0).numpy().tobytes()) + 5)


def cut_file(n):
    return lambda hand: hand.files.update({"__1_0.distcp": hand.files["__1_0.distcp"][:n]})


def path_of(*keys):
    return lambda hand: hand.metadata.planner_data.update(w=keys)


def legacy(value):
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=False)
    return out.getvalue()


def boxes(*items):
    """Other chunks in the metadata: (offset, shape) of those of w."""
    def damage(hand):
        for chunk, index, (offset, shape) in zip(hand.tensor().chunks, index_of(hand, "w"), items):
            chunk.__dict__.update(offsets=size(*offset), sizes=size(*shape))
            index.__dict__.update(offset=size(*offset))
    return damage


W = "'w': "
DAMAGE = [
    # the metadata's objects
    ("no state_dict_metadata", lambda h: h.metadata.__dict__.pop("state_dict_metadata"), "is no Metadata"),
    ("state_dict_metadata is a list", setter(lambda h: h.metadata, state_dict_metadata=[]), "is no Metadata"),
    ("a name that is an integer", lambda h: h.metadata.state_dict_metadata.update({3: h.tensor()}), "a key of state_dict_metadata"),
    ("a value that is None", lambda h: h.metadata.state_dict_metadata.update(w=None), W + "the metadata is damaged: a value is neither"),
    ("a value of a chunk's class", lambda h: h.metadata.state_dict_metadata.update(w=h.chunk()), W),
    ("no storage_data", lambda h: h.metadata.__dict__.pop("storage_data"), "storage_data is no dict"),
    ("storage_data is None", setter(lambda h: h.metadata, storage_data=None), "storage_data is no dict"),
    ("storage_data is a list", setter(lambda h: h.metadata, storage_data=[1]), "storage_data is no dict"),
    ("no place of a chunk", lambda h: drop_place(h, "w"), W + "storage_data has no place for one of its chunks"),
    ("no place of a value", lambda h: drop_place(h, "n"), "'n': storage_data has no place for it"),
    ("a place twice", lambda h: h.metadata.storage_data.update({copy.copy(index_of(h, "w")[1]): h.place()}), "a chunk of 'w' twice"),
    ("a key of storage_data is a text", lambda h: h.metadata.storage_data.update(x=h.place()), "is not MetadataIndex"),
    ("a place is None", lambda h: h.metadata.storage_data.update({index_of(h, "w")[0]: None}), "is not MetadataIndex"),
    ("fqn is an integer", lambda h: index_of(h, "w")[0].__dict__.update(fqn=7), "is not MetadataIndex"),
    ("an index's offset is a list", lambda h: index_of(h, "w")[0].__dict__.update(offset=[0, 0]), "the offset of a chunk is no tuple"),
    ("an index's offset is negative", lambda h: index_of(h, "w")[0].__dict__.update(offset=size(-4, 0)), "no tuple of counts"),
    ("an index's offset is a text", lambda h: index_of(h, "w")[0].__dict__.update(offset=("0", 0)), "no tuple of counts"),
    ("an index's offset is another", lambda h: index_of(h, "w")[1].__dict__.update(offset=size(3, 0)), W + "storage_data has no place"),
    ("an index's offset has one number", lambda h: index_of(h, "w")[1].__dict__.update(offset=size(4)), W + "storage_data has no place"),
    # names of files
    *((f"the file is {name!r}", setter(Hand.place, relative_path=name), W + "it is to be found in")
      for name in ("../__0_0.distcp", "/etc/passwd", "a/b.distcp", "", ".", "..", "./__0_0.distcp")),
    ("the file is a number", setter(Hand.place, relative_path=3), W + "the metadata is damaged: a _StorageInfo"),
    ("the file is missing", setter(Hand.place, relative_path="__9_0.distcp"), W),
    ("the file is the metadata", setter(Hand.place, relative_path=".metadata"), W),
    ("the file is that of another rank", setter(Hand.place, relative_path="__1_0.distcp"), "'w'"),
    # places in files
    *((f"the offset is {at}", setter(Hand.place, offset=at), text) for at, text in
      ((-1, W + "the metadata is damaged"), (1, "'w'"), (1 << 40, "'w' has"), (1 << 62, "'w' has"), ((1 << 63) - 1, "'w' has"),
       (1 << 64, W + "the metadata is damaged"), ("0", W + "the metadata is damaged"), (None, W + "the metadata is damaged"))),
    *((f"the length is {n}", setter(Hand.place, length=n), text) for n, text in
      ((-1, W + "the metadata is damaged"), (0, "'w': '__0_0.distcp' at byte 0"), (1, "'w': '__0_0.distcp'"), (100, "'w': '__0_0.distcp'"),
       (1 << 40, "'w' has"), ((1 << 63) - 1, "'w' has"), (2.5, W + "the metadata is damaged"))),
    ("the length is one less", lambda h: h.place().__dict__.update(length=h.place().length - 1), "'w': '__0_0.distcp'"),
    ("the length is one more", lambda h: h.place().__dict__.update(length=h.place().length + 1), "in common"),
    ("two values share their bytes", lambda h: h.place(0, "b").__dict__.update(h.place().__dict__), "in common"),
    ("two chunks share their bytes", lambda h: h.place(1).__dict__.update(h.place().__dict__), "in common"),
    ("stored through an extension", setter(Hand.place, transform_descriptors=["stream.zstd"]), W + "it is stored through the extension 'stream.zstd'"),
    # tensors
    ("no properties", lambda h: h.tensor().__dict__.pop("properties"), W + "the metadata is damaged: the properties"),
    ("properties without a tuple", lambda h: h.tensor().properties.__dict__.update(state={"a": 1}), W + "the metadata is damaged"),
    ("another type", lambda h: h.tensor().properties.__dict__.update(state=(torch.float64,)), W + "the metadata says that it is float64"),
    ("a type that is a text", lambda h: h.tensor().properties.__dict__.update(state=("float32",)), W + "the metadata is damaged"),
    ("no size", lambda h: h.tensor().__dict__.pop("size"), W + "the metadata is damaged"),
    ("a size that is a list", setter(Hand.tensor, size=[6, 5]), W + "the metadata is damaged"),
    ("a size of one dimension", setter(Hand.tensor, size=size(30)), W + "the metadata is damaged: a shape or an offset"),
    ("a size that is negative", setter(Hand.tensor, size=(-6, 5)), W + "the metadata is damaged"),
    ("a size of a text", setter(Hand.tensor, size=("6", 5)), W + "the metadata is damaged"),
    ("a size with a row more", setter(Hand.tensor, size=size(7, 5)), W + "its chunks have 30 of its 35 elements"),
    ("a size with a row less", setter(Hand.tensor, size=size(5, 5)), W + "the chunk at [4, 0] of shape [2, 5] lies outside"),
    ("a size of many TiB", setter(Hand.tensor, size=size(1 << 40, 5)), W + "its chunks have 30 of"),
    ("a size that overflows", setter(Hand.tensor, size=size(1 << 62, 1 << 62)), W + "a shape that is negative or overflows"),
    ("33 dimensions", setter(Hand.tensor, size=size(*[1] * 33)), W + "33 dimensions"),
    ("no chunks", setter(Hand.tensor, chunks=[]), W + "its chunks have 0 of its 30 elements"),
    ("chunks that are a tuple", setter(Hand.tensor, chunks=()), W + "the metadata is damaged"),
    ("chunks without one", lambda h: h.tensor().chunks.pop(), W + "its chunks have 20 of its 30 elements"),
    ("chunks with one twice", lambda h: h.tensor().chunks.append(h.chunk()), "in common"),
    ("a chunk that is None", lambda h: h.tensor().chunks.append(None), W + "the metadata is damaged: a chunk"),
    ("a chunk without offsets", lambda h: h.chunk().__dict__.pop("offsets"), W + "the metadata is damaged"),
    ("a chunk of one dimension", setter(Hand.chunk, sizes=size(20)), W + "the metadata is damaged"),
    ("chunks that overlap", boxes(((0, 0), (4, 5)), ((3, 0), (2, 5))), W + "the chunk at [0, 0] of shape [4, 5] overlaps the one at [3, 0]"),
    ("chunks with a gap", lambda h: (boxes(((0, 0), (4, 5)), ((5, 0), (1, 5)))(h), replace_item(h, torch.zeros(1, 5), 1)),
     W + "its chunks have 25 of its 30"),
    ("a chunk outside", boxes(((0, 0), (4, 5)), ((5, 0), (2, 5))), W + "the chunk at [5, 0] of shape [2, 5] lies outside"),
    ("a chunk far outside", boxes(((0, 0), (4, 5)), (((1 << 63) - 1, 0), (2, 5))), "0] of shape [2, 5] lies outside"),
    ("a chunk of another shape", boxes(((0, 0), (5, 4)), ((4, 0), (2, 5))), W + "a chunk does not have the shape"),
    ("a chunk of negative shape", boxes(((0, 0), (-4, 5)), ((4, 0), (2, 5))), W + "the metadata is damaged"),
    # paths
    ("a path that is a list", lambda h: h.metadata.planner_data.update(w=["w"]), "an item of planner_data"),
    ("a path that is empty", path_of(), "an item of planner_data"),
    ("a path of None", path_of(None), "planner_data has a key"),
    ("a path of a negative index", path_of("x", -1), "planner_data has a key"),
    ("a path of a huge index", path_of("x", 1 << 40), W + "its path has an index beyond"),
    ("a path of 200 keys", path_of(*"x" * 200), "an item of planner_data"),
    ("a path into a tensor", path_of("b", "x"), "its path is also that of another value"),
    ("a path that another has", path_of("b"), "its path is also that of another value"),
    ("an index in a dict's place", lambda h: h.metadata.planner_data.update(w=("x", 0), b=("x", "y")), "a key where others have an index"),
    # files
    ("a file that is missing", lambda h: h.files.update({"__1_0.distcp": None}), W),
    *((f"a file cut to {n} bytes", cut_file(n), "'w' has") for n in (0, 1, 30, 500)),
    ("a file cut by a byte", lambda h: cut_file(len(h.files["__1_0.distcp"]) - 1)(h), "'w' has"),
    ("a file of text", lambda h: h.files.update({"__1_0.distcp": b"not found\n" * 400}), W + "'__1_0.distcp' at byte 0: no archive"),
    ("a file of zeros", lambda h: h.files.update({"__1_0.distcp": bytes(4000)}), W + "'__1_0.distcp' at byte 0: no archive"),
    ("a bit of a tensor", flip_data, "w"),
    ("a bit of a pickle", lambda h: flip(h, h.files["__0_0.distcp"].index(b"_rebuild_tensor_v2") + 3), "'w': '__0_0.distcp' at byte 0"),
    ("a bit of a directory", lambda h: flip(h, h.files["__1_0.distcp"].index(b"PK\1\2") + 1, "__1_0.distcp"), "'w': '__1_0.distcp' at byte 0"),
    # archives
    ("an archive of a dict", lambda h: replace_item(h, {"x": torch.ones(4, 5)}), W + "the archive of a chunk has no plain tensor"),
    ("an archive of a sparse tensor", lambda h: replace_item(h, torch.eye(4, 5).to_sparse()), W + "the archive of a chunk has no plain"),
    ("an archive of another type", lambda h: replace_item(h, torch.ones(4, 5, dtype=torch.int32)), W + "the metadata says that it is float32"),
    ("an archive of another shape", lambda h: replace_item(h, torch.ones(5, 4)), W + "a chunk does not have the shape"),
    ("an archive that calls os.system", lambda h: replace_item(h, Call("os_", "system", "true")), W + "the archive of a chunk has no plain"),
    ("an archive of the old format", lambda h: replace_item(h, legacy(torch.ones(4, 5))), "no archive of torch.save() begins there"),
    ("two archives", lambda h: replace_item(h, h.files["__0_0.distcp"][:h.place().length] * 2), "'w': 'x.distcp'"),
    # globals
    *((f"the metadata calls {module}.{name}", lambda h, c=(module, name): h.metadata.__dict__.update(storage_meta=Call(*c, "x")),
       f"the metadata names '{module}.{name}'") for module, name in (("evil", "run"), ("torch.distributed.checkpoint.evil", "Metadata"))),
    ("planner_data of another class", lambda h: h.metadata.__dict__.update(planner_data=fake("mine", "Plan").Plan(a=1)),
     "the metadata names 'mine.Plan'"),
]

def insert(opcodes):
    """Opcodes before the last one, in a pickle whose only frame is taken off."""
    return lambda p: p[:2] + p[11:-1] + opcodes + p[-1:]


POP = b"cposix\nsystem\n(S'touch RAN'\ntR0"  # called, and its result thrown away
PICKLES = [
    *((f"the metadata cut to {n} bytes", lambda p, n=n: p[:n], "") for n in (0, 1, 2, 11, 60, 300, 1000)),
    ("the metadata cut by a byte", lambda p: p[:-1], ""),
    ("bytes behind the metadata", lambda p: p + b"more", "4 bytes follow the pickle"),
    ("a call of os.system", insert(POP), "names 'posix.system'"),
    ("a persistent id", insert(b"S'x'\nQ0"), "refers to data outside"),
    ("an unknown opcode", insert(b"\xff"), "opcode"),
    ("another class of its module", lambda p: p.replace(b"BytesStorageMetadata", b"BytesStorageMetadatb"), "names 'torch.distributed.checkpoint.metadata.BytesStorageMetadatb'"),
]


@tap.cases([name for name, _, _ in DAMAGE] + [name for name, _, _ in PICKLES])
def damaged(folder, name):
    hand, edit, text = small(), lambda pickled: pickled, None
    for label, damage, part in DAMAGE:
        if label == name:
            damage(hand)
            text = part
    for label, change, part in PICKLES:
        if label == name:
            edit, text = change, part
    hand.write(f"{folder}/dcp", edit)
    refused(gtrain("convert", f"{folder}/dcp", "-o", f"{folder}/out.pth"), text)
    assert sorted(os.listdir(folder)) == ["dcp"], os.listdir(folder)


@tap.cases(["the metadata", "an archive"])
def verify_judges_pickles(folder, name):
    hand = small()
    if name == "an archive":
        hand.add("evil", Call("posix", "system", "true"))
    hand.write(f"{folder}/dcp", insert(POP) if name == "the metadata" else bytes)
    done = gtrain("verify", f"{folder}/dcp")
    assert done.returncode == 1 and "'posix.system', which can run code or open files" in done.stdout, done.stdout + done.stderr


@tap.cases([""])
def other_names(folder, _):
    small().write(f"{folder}/dcp")
    refused(gtrain("ls", f"{folder}/dcp/__0_0.distcp"), "a rank's file of a distributed checkpoint")
    for place in ("dcp", "dcp/.metadata"):
        done = gtrain("ls", f"{folder}/{place}")
        assert done.returncode == 0 and "dcp, " in done.stdout and "w" in done.stdout, done.stdout + done.stderr
    os.mkdir(f"{folder}/accelerate")
    os.rename(f"{folder}/dcp", f"{folder}/accelerate/pytorch_model_fsdp_0")
    assert gtrain("ls", f"{folder}/accelerate").returncode == 0
    done = gtrain("select", f"{folder}/accelerate", "--keys", "b", "-o", f"{folder}/b.safetensors")
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        globals()[sys.argv[2]](sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        sys.exit(0)
    sys.exit(tap.run(tap.parts, GTRAIN, sys.argv[1:]))
