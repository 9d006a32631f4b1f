#!/usr/bin/python3
"""
deepspeed_folders.py - folders of DeepSpeed: the float32 weights that gtrain puts together from the ranks' partitions, and damaged folders.

The files are made here after the layout of DeepSpeed 0.19.8, as the package needs a newer PyTorch than Debian's. DEEPSPEED_PYTHON
names a python that has it: then that one trains for a few steps and saves, and its own zero_to_fp32.py says what the weights are.
"""
import collections
import os
import subprocess
import sys

try:
    import torch
except ImportError:
    print("1..0 # SKIP torch: python has none")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
PYTHON = os.environ.get("DEEPSPEED_PYTHON")
STEP = "global_step7"


def gtrain(*args):
    return subprocess.run([GTRAIN, "ckpt", *map(str, args)], capture_output=True, text=True, errors="replace")


# ---- files after DeepSpeed's layout ----

class Run:
    """What each rank saves: models[r] and optimizers[r] are the dicts of its two files. Damage is done to them."""

    def __init__(self, stage, ranks):
        torch.manual_seed(3)
        self.stage, self.ranks, self.latest = stage, ranks, STEP
        shapes = [{"a.weight": (5, 7), "a.bias": (5,), "scale": ()}, {"b.weight": (2, 3, 4), "none": (0, 3), "c": (11,)}]
        self.groups = [{name: torch.randn(shape) for name, shape in group.items()} for group in shapes]
        self.frozen = {"frozen": torch.randn(3, 3).to(torch.bfloat16)}
        self.buffers = {"count": torch.arange(4), "mean": torch.randn(3).to(torch.bfloat16)}
        self.full = {"count": self.buffers["count"], "mean": self.buffers["mean"].float(), **self.frozen, **self.groups[0],
                     **self.groups[1], "tied": self.groups[0]["a.weight"]}
        self.models = [self.model(rank) for rank in range(ranks if stage == 3 else 1)]
        key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
        count = ranks if stage == 3 else [ranks] * len(self.groups)
        self.optimizers = [{"zero_stage": stage, "partition_count": count, "loss_scaler": None,
                            key: [self.partition(group, rank) for group in self.groups]} for rank in range(ranks)]
        self.names = {"model": "zero_pp_rank_%d_mp_rank_00_model_states.pt" if stage == 3 else "mp_rank_%02d_model_states.pt",
                      "optimizer": "bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt"}

    def part(self, tensor, rank):
        """A rank's part of a tensor by itself, padded."""
        n = -(-tensor.numel() // self.ranks)
        return torch.cat([tensor.reshape(-1), torch.full((n * self.ranks - tensor.numel(),), 9.0, dtype=tensor.dtype)])[n * rank:n * rank + n]

    def partition(self, group, rank):
        if self.stage == 3:
            return torch.cat([self.part(tensor, rank) for tensor in group.values()])
        flat = torch.cat([tensor.reshape(-1) for tensor in group.values()])
        each = -(-flat.numel() // (2 * self.ranks)) * 2
        return torch.cat([flat, torch.full((each * self.ranks - flat.numel(),), 9.0)])[each * rank:each * rank + each].clone()

    def model(self, rank):
        half = {name: tensor.to(torch.bfloat16) for group in self.groups for name, tensor in group.items()}
        return {"module": collections.OrderedDict(**self.buffers, **half), "buffer_names": ["count", "mean", "not_saved"],
                "param_shapes": [collections.OrderedDict((name, t.shape) for name, t in group.items()) for group in self.groups],
                "frozen_param_shapes": {name: tensor.shape for name, tensor in self.frozen.items()},
                "frozen_param_fragments": {name: self.part(t, rank) if self.stage == 3 else t for name, t in self.frozen.items()},
                "shared_params": {"tied": "a.weight"}, "ds_version": "0.19.8", "global_steps": 7}

    def write(self, folder):
        os.makedirs(f"{folder}/{STEP}")
        for rank, model in enumerate(self.models):
            torch.save(model, f"{folder}/{STEP}/{self.names['model'] % rank}")
        for rank, optimizer in enumerate(self.optimizers):
            torch.save({"optimizer_state_dict": optimizer, "ds_version": "0.19.8"}, f"{folder}/{STEP}/{self.names['optimizer'] % rank}")
        with open(f"{folder}/latest", "w") as f:
            f.write(self.latest)
        with open(f"{folder}/zero_to_fp32.py", "w") as f:
            f.write("# DeepSpeed's script\n")


def check_same(expected, path):
    read = torch.load(path)
    assert list(read) == list(expected), f"{list(read)} and {list(expected)}"
    for name, tensor in expected.items():
        assert read[name].dtype == tensor.dtype and read[name].shape == tensor.shape and torch.equal(read[name], tensor), name


@tap.cases([f"stage {stage}, {ranks} rank{'s' * (ranks > 1)}" for stage in (1, 2, 3) for ranks in (1, 2, 3, 5)])
def weights(folder, name):
    run = Run(int(name.split()[1][0]), int(name.split()[2]))
    run.write(f"{folder}/run")
    for place in ("run", f"run/{STEP}"):
        done = gtrain("convert", f"{folder}/{place}", "-o", f"{folder}/out.pth")
        assert done.returncode == 0, done.stderr
        check_same(run.full, f"{folder}/out.pth")
    done = gtrain("verify", f"{folder}/run")
    assert done.returncode == 0, done.stdout + done.stderr


@tap.cases(["without ZeRO"])
def whole(folder, name):
    """The model states alone are the model; so is a file that is named."""
    run = Run(1, 1)
    run.optimizers = []
    run.write(f"{folder}/run")
    done = gtrain("convert", f"{folder}/run", "-o", f"{folder}/out.safetensors")
    assert done.returncode == 0 and "state_dict found under 'module'" in done.stderr, done.stderr


def optimizers(**values):
    return lambda run: [optimizer.update(values) for optimizer in run.optimizers]


def group(rank, change):
    """Change the vectors of a rank."""
    def damage(run):
        for key in ("fp32_flat_groups", "single_partition_of_fp32_groups"):
            if key in run.optimizers[rank]:
                run.optimizers[rank][key] = change(run.optimizers[rank][key])
    return damage


DAMAGE = [  # (stage, name, damage, a part of the error)
    (2, "no zero_stage", lambda r: r.optimizers[0].pop("zero_stage"), "no zero_stage of 1, 2 or 3"),
    (2, "zero_stage 4", optimizers(zero_stage=4), "no zero_stage of 1, 2 or 3"),
    (2, "no partition_count", lambda r: r.optimizers[0].pop("partition_count"), "no partition_count"),
    (2, "partition_count 0", optimizers(partition_count=0), "no partition_count"),
    (2, "partition_count of many", optimizers(partition_count=1 << 40), "no partition_count"),
    (2, "a rank is missing", lambda r: r.optimizers.pop(), "zero_pp_rank_1_mp_rank_00_optim_states.pt"),
    (2, "a rank too many", optimizers(partition_count=[1]), "there is 'bf16_zero_pp_rank_1"),
    (3, "a rank's model states are missing", lambda r: r.models.pop(), "zero_pp_rank_1_mp_rank_00_model_states.pt"),
    (2, "no groups", group(1, lambda g: None), "rank 1 has no list"),
    (2, "a group that is no vector", group(1, lambda g: [g[0], g[1].reshape(2, -1)]), "rank 1: 'single_partition_of_fp32_groups'"),
    (2, "a group less", group(1, lambda g: g[:1]), "rank 1 has 1 groups, rank 0 has 2"),
    (2, "a short partition", group(1, lambda g: [g[0], g[1][:-8]]), "'c': the ranks' partitions end before its last"),
    (2, "a long partition", group(1, lambda g: [g[0], torch.cat([g[1], torch.ones(8)])]), "of group 1 have 9 elements more"),
    (3, "a short partition", group(0, lambda g: [g[0], g[1][:-1]]), "'c'"),
    (3, "a long partition", group(0, lambda g: [g[0], torch.cat([g[1], torch.ones(1)])]), "the partition of rank 0 has"),
    (3, "a partition of another type", group(1, lambda g: [t.double() for t in g]), ""),
    (2, "no param_shapes", lambda r: r.models[0].pop("param_shapes"), "no list of dicts 'param_shapes'"),
    (2, "a shape that is a list", lambda r: r.models[0]["param_shapes"][0].update({"scale": [1]}), "'scale': its shape is no torch.Size"),
    (2, "a larger shape", lambda r: r.models[0]["param_shapes"][1].update(c=torch.Size([1 << 40])), "'c': the ranks' partitions end"),
    (2, "shapes of a group more", lambda r: r.models[0]["param_shapes"].append({}), "shapes of 3 groups"),
    (2, "a name twice", lambda r: r.models[0]["param_shapes"][1].update({"a.bias": torch.Size([0])}), "'a.bias' twice"),
    (2, "no buffer_names", lambda r: r.models[0].pop("buffer_names"), "no 'buffer_names'"),
    (3, "a frozen parameter is missing", lambda r: r.models[1]["frozen_param_fragments"].clear(), "'frozen': the model states of rank 1"),
    (3, "a frozen parameter is short", lambda r: r.models[1]["frozen_param_fragments"].update(frozen=torch.ones(1).to(torch.bfloat16)), "'frozen'"),
    (2, "latest leads outside", lambda r: setattr(r, "latest", "../other"), "latest' has no name of a folder"),
    (2, "latest is empty", lambda r: setattr(r, "latest", "\n"), "latest' has no name of a folder"),
    (2, "latest names nothing", lambda r: setattr(r, "latest", "global_step9"), "global_step9' has no model states"),
]


@tap.cases([f"stage {stage}, {name}" for stage, name, _, _ in DAMAGE])
def damaged(folder, name):
    stage, _, damage, text = next(row for row in DAMAGE if f"stage {row[0]}, {row[1]}" == name)
    run = Run(stage, 2)
    damage(run)
    run.write(f"{folder}/run")
    done = gtrain("convert", f"{folder}/run", "-o", f"{folder}/out.pth")
    errors = [line for line in done.stderr.splitlines() if line.startswith("gtrain: error: ")]
    if text == "":  # vectors of other types are converted
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1 and len(errors) == 1 and "Sanitizer" not in done.stderr and text in errors[0], done.stderr
    assert not os.path.exists(f"{folder}/out.pth")


@tap.cases([""])
def tensor_parallel(folder, _):
    run = Run(2, 1)
    run.models.append(run.models[0])
    run.write(f"{folder}/run")
    done = gtrain("ls", f"{folder}/run")
    assert done.returncode == 1 and "divided among ranks (tensor parallelism)" in done.stderr, done.stderr


# ---- with DeepSpeed itself ----

def train(stage, folder):
    """Run by each rank, in DEEPSPEED_PYTHON."""
    import deepspeed
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3, bias=False), torch.nn.Linear(3, 1))
    net.frozen = torch.nn.Parameter(torch.randn(3, 3), requires_grad=False)
    net.register_buffer("count", torch.arange(4.0))
    config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": stage}, "bf16": {"enabled": True},
              "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}}}
    deepspeed.init_distributed(dist_backend="gloo")
    engine = deepspeed.initialize(model=net, model_parameters=[p for p in net.parameters() if p.requires_grad], config=config)[0]
    for _ in range(3):
        engine.backward(engine(torch.randn(2, 7).to(torch.bfloat16)).float().pow(2).mean())
        engine.step()
    engine.save_checkpoint(folder)
    if torch.distributed.get_rank() == 0:
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
        torch.save({name: t.clone() for name, t in get_fp32_state_dict_from_zero_checkpoint(folder).items()}, folder + ".pth")


if PYTHON:
    @tap.cases(["1", "2", "3"])
    def with_deepspeed(folder, stage):
        env = dict(os.environ, DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")
        done = subprocess.run([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", os.path.abspath(__file__),
                               "--train", stage, f"{folder}/run"], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
        done = gtrain("convert", f"{folder}/run", "-o", f"{folder}/out.pth")
        assert done.returncode == 0, done.stderr
        check_same(torch.load(f"{folder}/run.pth"), f"{folder}/out.pth")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(int(sys.argv[2]), sys.argv[3])
        sys.exit(0)
    sys.exit(tap.run(tap.parts, GTRAIN, sys.argv[1:]))
