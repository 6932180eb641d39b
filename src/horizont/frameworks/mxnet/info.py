"""What Horizont knows about MXNet without loading it."""

from horizont.config.framework import FrameworkInfo, ReaderInfo, SystemInfo, VariantInfo

INFO = FrameworkInfo(
    label="MXNet",
    distributions=("mxnet",),
    import_names=("mxnet",),
    colour="#2a7fba",
    marker="D",
    systems={
        "local": SystemInfo(mechanism="Gluon, hybridized"),
        "sync/parameter_server": SystemInfo(
            mechanism="KVStore dist_sync",
            roles=("scheduler", "server"),
            service_roles=("scheduler", "server"),
            phases=("load", "forward", "backward", "waiting", "communication"),
            caveat="communication holds the server's update",
            weight_holders=("server", "worker"),
        ),
        "async/parameter_server": SystemInfo(
            mechanism="KVStore dist_async",
            roles=("scheduler", "server"),
            service_roles=("scheduler", "server"),
            phases=("load", "forward", "backward", "communication"),
            caveat="communication holds the server's update",
            records_updates=True,
            weight_holders=("server", "worker"),
        ),
    },
    variants={
        "dynamic_alloc": VariantInfo(
            mechanism="Gluon, hybridized without static_alloc and static_shape",
            label="no static memory",
            systems=("local", "sync/parameter_server"),
            tone=-0.4,
            fill="bottom",
        ),
    },
    readers={
        "gluon.DataLoader": ReaderInfo(
            mechanism="gluon.data.Dataset of batches, gluon.data.DataLoader",
            workers="processes",
            cache_scope="each example once it was read, in each worker its own",
        ),
        "gluon.DataLoader per image": ReaderInfo(
            mechanism="gluon.data.Dataset of images, transform_first with ToTensor and Normalize, "
            "default batchify, gluon.data.DataLoader",
            workers="processes",
            cache_scope="each example once it was read, in each worker its own",
        ),
        "RecordIO": ReaderInfo(
            mechanism="MXIndexedRecordIO of a converted copy, gluon.data.DataLoader",
            workers="processes",
            cache_scope="each example once it was read, in each worker its own",
        ),
        "NDArrayIter": ReaderInfo(
            mechanism="io.NDArrayIter over the examples of an epoch, put in order; "
            "io.PrefetchingIter",
            max_prefetch_inline=1,
            cache_scope="the whole set, and an epoch of it in order",
            always_cached=True,
        ),
    },
)
