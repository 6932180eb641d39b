"""What Horizont knows about JAX without loading it."""

from horizont.config.framework import FrameworkInfo, ReaderInfo, SystemInfo, VariantInfo

INFO = FrameworkInfo(
    label="JAX",
    distributions=("jax",),
    import_names=("jax", "jaxlib", "optax"),
    colour="#7a2fe0",
    marker="^",
    systems={
        "local": SystemInfo(mechanism="jax.jit, donated buffers"),
        "sync/allreduce": SystemInfo(
            mechanism="shard_map with pmean, gloo",
            phases=("load", "forward", "backward", "waiting", "communication", "update"),
            has_gradient_exchange=True,
        ),
    },
    variants={
        "eager": VariantInfo(
            mechanism="operator by operator, without jax.jit",
            label="eager",
            systems=("local",),
            tone=0.35,
            fill="left",
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
