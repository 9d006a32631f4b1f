"""program.py - the tables of the program under test: its models, and the words that options take."""
import functools
import json
import os
import subprocess

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
ISA_GIVEN = "ONEDNN_MAX_CPU_ISA" in os.environ


@functools.lru_cache(None)
def table(*topic):
    """The document that `gtrain help TOPIC --json` prints."""
    return json.loads(subprocess.run([GTRAIN, "help", *topic, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def words(option, command="train", but=()):
    """The words that an option takes, in the order of the help, without those in `but`."""
    options = table(*command.split())["commands"][0]["options"]
    return [word for o in options if o.get("name") == option for word in o["words"] if word not in but]


def formats():
    """The formats of checkpoints that are one file."""
    return words("to", "ckpt convert", but=["hf", "pt2", "onnx"])


def models():
    """The models, each a dict with its name and settings."""
    return table("models")["models"]


def use_avx2(use=True):
    """For many short runs in float32. oneDNN generates its kernels anew in each process: 35 ms of CPU time for AVX-512, 15 ms
    for AVX2, which has no products of bfloat16. models.py, ops.py and amp.py compare all that the processor has with PyTorch's."""
    if not ISA_GIVEN:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2" if use else "DEFAULT"
