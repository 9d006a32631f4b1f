"""launchers.py - what launchers tell the ranks that they start."""
import json
import socket


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def environments(port):
    """Names of launchers, each with the environment of rank i of 2 on this host."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    workers = {"worker": [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]}
    yield "torchrun", lambda i: {"RANK": str(i), "WORLD_SIZE": "2", "LOCAL_RANK": str(i), "LOCAL_WORLD_SIZE": "2", **address}
    yield "mpirun", lambda i: {"OMPI_COMM_WORLD_RANK": str(i), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": str(i),
                               "OMPI_COMM_WORLD_LOCAL_SIZE": "2", **address}
    yield "srun", lambda i: {"SLURM_PROCID": str(i), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(i), "SLURM_STEP_NUM_TASKS": "2",
                             "SLURM_STEP_NUM_NODES": "1", "SLURM_NTASKS_PER_NODE": "2", **address}
    yield "TF_CONFIG", lambda i: {"TF_CONFIG": json.dumps({"cluster": workers, "task": {"type": "worker", "index": i}})}
