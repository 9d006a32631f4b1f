"""launchers.py - what launchers tell the ranks that they start."""
import json
import random
import socket


def free_port():
    """A port that is free, as is the next one. Linux gives ports from 32768 on to any connection, so that they are not free for long."""
    while True:
        port = random.SystemRandom().randrange(20000, 30000)
        try:
            with socket.socket() as one, socket.socket() as two:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
            return port
        except OSError:
            pass


def environments(port):
    """Names of launchers, each with the environment of rank i of 2 on this host."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    workers = {"worker": [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]}
    yield "torchrun", lambda i: {"RANK": str(i), "WORLD_SIZE": "2", "LOCAL_RANK": str(i), "LOCAL_WORLD_SIZE": "2", **address}
    yield "mpirun", lambda i: {"OMPI_COMM_WORLD_RANK": str(i), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": str(i),
                               "OMPI_COMM_WORLD_LOCAL_SIZE": "2", **address}

    def srun(i):
        return {"SLURM_PROCID": str(i), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(i), "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_STEP_NUM_NODES": "1", "SLURM_NTASKS_PER_NODE": "2", **address}
    yield "srun", srun
    yield "srun after export WORLD_SIZE", lambda i: {"WORLD_SIZE": "2", **srun(i)}
    yield "srun after export RANK=$SLURM_PROCID", lambda i: {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", **srun(i)}
    yield "a scheduler with the own name", lambda i: {"RANK": str(i), "WORLD_SIZE": "2", **address, "MASTER_ADDR": socket.gethostname()}
    yield "a scheduler with [::1]", lambda i: {"RANK": str(i), "WORLD_SIZE": "2", **address, "MASTER_ADDR": "[::1]"}
    yield "TF_CONFIG", lambda i: {"TF_CONFIG": json.dumps({"cluster": workers, "task": {"type": "worker", "index": i}})}
