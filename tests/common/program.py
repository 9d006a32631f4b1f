"""program.py - the tables of the program under test: its models, and the words that options take."""
import functools
import json
import os
import subprocess

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
ISA_GIVEN = os.environ.get("GTRAIN_TEST_ISA", os.environ.get("ONEDNN_MAX_CPU_ISA"))


@functools.lru_cache(None)
def table(*topic):
    """The document that `gtrain help TOPIC --json` prints."""
    return json.loads(subprocess.run([GTRAIN, "help", *topic, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def words(option, command="train", but=()):
    """The words that an option takes, in the order of the help, without those in `but`."""
    options = table(*command.split())["commands"][0]["options"]
    return [word for o in options if o.get("name") == option for word in o["words"] if word not in but]


def formats():
    """The formats of checkpoints: dcp is a folder, the others are one file."""
    return words("to", "ckpt convert", but=["hf", "pt2", "onnx", "gguf"])


def models():
    """The models, each a dict with its name and settings."""
    return table("models")["models"]


def use_isa(isa="DEFAULT"):
    """Let oneDNN use these instructions and older ones, by default all of the processor, unless the user has chosen. tests/run
    has the others use fewer."""
    os.environ["ONEDNN_MAX_CPU_ISA"] = ISA_GIVEN or isa
