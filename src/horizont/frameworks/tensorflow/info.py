"""What Horizont knows about TensorFlow without loading it."""

from horizont.config.framework import (
    MAX_PREFETCH,
    FrameworkInfo,
    ReaderInfo,
    SystemInfo,
    VariantInfo,
)

INFO = FrameworkInfo(
    label="TensorFlow",
    distributions=("tensorflow-cpu", "tensorflow"),
    import_names=("tensorflow", "keras"),
    colour="#e07b12",
    marker="o",
    systems={
        "local": SystemInfo(mechanism="tf.function"),
        "sync/allreduce": SystemInfo(
            mechanism="MultiWorkerMirroredStrategy, ring",
            phases=("load", "forward", "backward", "waiting", "communication", "update"),
        ),
        "sync/mpi": SystemInfo(
            mechanism="MPI_Iallreduce of mpi4py and MPICH in tf.numpy_function, ring",
            packages=("mpi4py", "mpich"),
            phases=("load", "forward", "backward", "waiting", "communication", "update"),
            caveat="nothing is exchanged before the backward pass has ended",
            is_native=False,
        ),
        "async/parameter_server": SystemInfo(
            mechanism="ParameterServerStrategy",
            roles=("chief", "server"),
            service_roles=("worker", "server"),
            phases=("load", "forward", "backward", "communication"),
            caveat="communication holds the pull of the weights and the push with the server's "
            "update",
            sends_table_rows=True,
            weight_holders=("server",),
        ),
    },
    variants={
        "xla": VariantInfo(
            mechanism="tf.function with XLA (jit_compile)",
            label="XLA",
            systems=("local",),
            images_only=True,  # XLA cannot carry a recurrent state of unknown size
            tone=-0.4,
            fill="bottom",
        ),
        "eager": VariantInfo(
            mechanism="operator by operator, without tf.function",
            label="eager",
            systems=("local",),
            tone=0.35,
            fill="left",
        ),
        # By default TensorFlow picks one of the next two by the instruction set of the CPU.
        "onednn": VariantInfo(
            mechanism="oneDNN's kernels",
            label="oneDNN",
            systems=("local", "sync/allreduce"),
            environment={"TF_ENABLE_ONEDNN_OPTS": "1"},
            tone=-0.55,
            fill="top",
        ),
        "no_onednn": VariantInfo(
            mechanism="TensorFlow's own kernels in the place of oneDNN's",
            label="without oneDNN",
            systems=("local", "sync/allreduce"),
            environment={"TF_ENABLE_ONEDNN_OPTS": "0"},
            tone=0.6,
            fill="right",
        ),
    },
    readers={
        "tf.data": ReaderInfo(
            mechanism="a map over the order with tf.numpy_function; with the cache "
            "FixedLengthRecordDataset, cache() of the whole set, gather",
            workers="threads",
            max_prefetch_inline=MAX_PREFETCH,
            cache_scope="the whole set, read at the first batch",
        ),
        "tf.data per image": ReaderInfo(
            mechanism="a map over single indices with tf.numpy_function, a map that normalises an "
            "image, batch; with the cache as tf.data",
            workers="threads",
            max_prefetch_inline=MAX_PREFETCH,
            cache_scope="the whole set, read at the first batch",
        ),
        "FixedLengthRecordDataset": ReaderInfo(
            mechanism="tf.data.FixedLengthRecordDataset, map, cache(), batch",
            ordered=False,
            workers="threads",
            max_prefetch_inline=MAX_PREFETCH,
            cache_scope="each example once it was read",
        ),
    },
)
