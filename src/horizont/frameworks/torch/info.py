"""What Horizont knows about PyTorch without loading it."""

from horizont.config.framework import FrameworkInfo, ReaderInfo, SystemInfo, VariantInfo

_PARAMETER_SERVER = SystemInfo(
    mechanism="torch.distributed send and receive, gloo",
    roles=("server",),
    service_roles=("server",),
    phases=("load", "forward", "backward", "waiting", "communication"),
    caveat="communication holds the server's update",
    is_native=False,
    has_equal_slices=True,
    weight_holders=("server", "worker"),
)

#: The program that finds the GPUs; a build for CPUs finds none.
_DEVICE_QUERY = """
import json, torch
names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
print(json.dumps({"names": names, "cuda": torch.version.cuda or ""}))
"""

INFO = FrameworkInfo(
    label="PyTorch",
    distributions=("torch",),
    import_names=("torch",),
    colour="#b2387c",
    marker="s",
    device_query=_DEVICE_QUERY,
    systems={
        "local": SystemInfo(mechanism="eager", devices=("cpu", "cuda")),
        "sync/allreduce": SystemInfo(
            mechanism="DistributedDataParallel, gloo",
            devices=("cpu", "cuda"),
            phases=("load", "forward", "backward", "waiting", "communication", "update"),
            has_gradient_exchange=True,
        ),
        "sync/mpi": SystemInfo(
            mechanism="MPI_Iallreduce of mpi4py and MPICH, ring",
            packages=("mpi4py", "mpich"),
            phases=("load", "forward", "backward", "waiting", "communication", "update"),
            caveat="nothing is exchanged before the backward pass has ended",
            is_native=False,
        ),
        "sync/parameter_server": _PARAMETER_SERVER,
        "async/parameter_server": _PARAMETER_SERVER.model_copy(
            update={
                "phases": ("load", "forward", "backward", "communication"),
                "caveat": "communication holds the server's update, and waiting for it behind "
                "other workers'",
                "records_updates": True,
            }
        ),
    },
    variants={
        "compiled": VariantInfo(
            mechanism="torch.compile, Inductor",
            label="torch.compile",
            systems=("local",),
            images_only=True,  # torch.compile leaves the LSTM uncompiled
            needs_compiler=True,
            tone=-0.4,
            fill="bottom",
        ),
        "channels_last": VariantInfo(
            mechanism="memory format channels_last",
            label="channels last",
            systems=("local", "sync/allreduce"),
            images_only=True,
            tone=0.45,
            fill="left",
        ),
        "tf32": VariantInfo(
            mechanism="TF32 in matrix products and convolutions",
            label="TF32",
            systems=("local", "sync/allreduce"),
            devices=("cuda",),
            float32_bits=11,
            tone=-0.6,
            fill="right",
        ),
    },
    readers={
        "DataLoader": ReaderInfo(
            mechanism="Dataset with __getitems__, DataLoader",
            workers="processes",
            min_prefetch_with_workers=1,
            cache_scope="each example once it was read, in each worker its own",
        ),
        "DataLoader per image": ReaderInfo(
            mechanism="Dataset with __getitem__, transforms of an image, default_collate, "
            "DataLoader",
            workers="processes",
            min_prefetch_with_workers=1,
            cache_scope="each example once it was read, in each worker its own",
        ),
    },
)
