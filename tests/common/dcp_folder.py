"""dcp_folder.py - distributed checkpoints in the layout of PyTorch 2, made by hand: PyTorch 1.13 does for it."""
import io
import os
import pickle
import sys
import types

import torch

METADATA = "torch.distributed.checkpoint.metadata"


def fake(module, *names):
    """A module with these classes, which a pickle names as its; of a module that exists, the functions that are there."""
    made = sys.modules.setdefault(module, types.ModuleType(module))
    for name in names:
        if not hasattr(made, name):
            made.__dict__[name] = type(name, (), {"__module__": module, "__init__": set_state})
    return made


def set_state(self, *args, **state):
    self.__dict__.update(state, **({"args": args} if args else {}))


class Call:
    """A value that is pickled as a call of a global."""

    def __init__(self, module, name, *args):
        self.function, self.args = getattr(fake(module, name), name), args

    def __reduce__(self):
        return self.function, self.args


def size(*dims):
    return torch.Size(dims)


class Hand:
    """A checkpoint, as Python objects: `metadata` and `files` (name -> bytes). Damage is done to them, then they are written."""

    def __init__(self):
        self.m = fake(METADATA, "Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex",
                      "TensorProperties", "StorageMeta")
        self.info = fake("torch.distributed.checkpoint.filesystem", "_StorageInfo")._StorageInfo
        self.m.TensorProperties.__getstate__ = lambda p: p.__dict__["state"]
        self.metadata = self.m.Metadata(state_dict_metadata={}, planner_data={}, storage_data={})
        self.files, self.full, self.tail = {}, {}, b""

    def store(self, index, value, file):
        out = io.BytesIO()
        torch.save(value, out)
        at = len(self.files.setdefault(file, b""))
        self.files[file] += out.getvalue()
        self.metadata.storage_data[index] = self.info(relative_path=file, offset=at, length=len(out.getvalue()))

    def add(self, name, value, boxes=None, path=None):
        """Add a value; of a tensor, `boxes` are (offset, shape) of its chunks, in the files of ranks 0, 1, ..."""
        self.full[name] = value
        self.metadata.planner_data[name] = path or (name,)
        if not isinstance(value, torch.Tensor):
            self.metadata.state_dict_metadata[name] = self.m.BytesStorageMetadata()
            self.store(self.m.MetadataIndex(fqn=name, index=None), value, "__0_0.distcp")
            return
        properties = self.m.TensorProperties(state=(value.dtype, Call("torch.serialization", "_get_layout", "torch.strided"), False,
                                                    Call(METADATA, "_MEM_FORMAT_ENCODING", 0), False))
        chunks = []
        for rank, (offset, shape) in enumerate(boxes or [((0,) * value.ndim, tuple(value.shape))]):
            part = value
            for dim, (first, count) in enumerate(zip(offset, shape)):
                part = part.narrow(dim, first, count)
            chunks.append(self.m.ChunkStorageMetadata(offsets=size(*offset), sizes=size(*shape)))
            self.store(self.m.MetadataIndex(fqn=name, offset=size(*offset), index=rank), part.clone(), f"__{rank}_0.distcp")
        self.metadata.state_dict_metadata[name] = self.m.TensorStorageMetadata(properties=properties, size=size(*value.shape),
                                                                               chunks=chunks)

    # what the damage is done to
    def tensor(self, name="w"):
        return self.metadata.state_dict_metadata[name]

    def chunk(self, i=0, name="w"):
        return self.tensor(name).chunks[i]

    def place(self, i=0, name="w"):
        return [info for index, info in self.metadata.storage_data.items() if index.fqn == name][i]

    def write(self, folder, edit=lambda pickled: pickled):
        os.mkdir(folder)
        for name, content in self.files.items():
            if content is not None:
                with open(f"{folder}/{name}", "wb") as f:
                    f.write(content)
        with open(f"{folder}/.metadata", "wb") as f:
            f.write(edit(pickle.dumps(self.metadata, 4)))
