"""What Horizont knows about JAX without loading it."""

from horizont.config.framework import FrameworkInfo, ReaderInfo, SystemInfo, VariantInfo

#: The program that finds the GPUs; it allocates none of their memory.
_DEVICE_QUERY = """
import json, os, re
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax
devices = jax.devices("cuda")
version = re.search(r"cuda (\\d+)", devices[0].client.platform_version)
number = int(version[1]) if version else 0
cuda = f"{number // 1000}.{number % 1000 // 10}" if number else ""
print(json.dumps({"names": [device.device_kind for device in devices], "cuda": cuda}))
"""

INFO = FrameworkInfo(
    label="JAX",
    distributions=("jax",),
    import_names=("jax", "jaxlib", "optax"),
    colour="#7a2fe0",
    marker="^",
    device_query=_DEVICE_QUERY,
    systems={
        "local": SystemInfo(mechanism="jax.jit, donated buffers", devices=("cpu", "cuda")),
        "sync/allreduce": SystemInfo(
            devices=("cpu", "cuda"),
            mechanism="shard_map with pmean, gloo",
            phases=("load", "forward", "backward", "waiting", "communication", "update"),
            has_gradient_exchange=True,
            # Its coordination service compares heartbeats with the wall clock: when that is set
            # back, it ends all processes (JAX 0.10).
            needs_steady_clock=True,
        ),
    },
    variants={
        "eager": VariantInfo(
            mechanism="operator by operator, without jax.jit",
            label="eager",
            systems=("local",),
            devices=("cpu",),  # the profiler cannot assign its kernels to phases
            tone=0.35,
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
        "ThreadPoolExecutor": ReaderInfo(
            mechanism="threads of Python that read and normalise batches with NumPy",
            workers="threads",
            min_prefetch_with_workers=1,
            cache_scope="each example once it was read",
        ),
        "ThreadPoolExecutor per image": ReaderInfo(
            mechanism="the same threads, but each image is read and normalised by itself, then "
            "numpy.stack",
            workers="threads",
            min_prefetch_with_workers=1,
            cache_scope="each example once it was read",
        ),
    },
)
