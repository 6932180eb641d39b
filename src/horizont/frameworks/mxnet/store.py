"""Joining and leaving MXNet's parameter servers."""

from __future__ import annotations

import ctypes
from typing import Any

from horizont.frameworks.mxnet.compat import mx
from horizont.frameworks.mxnet.roles import enter
from horizont.spec import ProcessJob


def join(job: ProcessJob) -> Any:
    """Wait for all processes of the job and return the KVStore they form.

    A worker that fails must not wait for the others while its interpreter ends: they wait for
    its gradients, and nobody would ever hear of the failure. So the store is told not to, until
    :func:`wait_for_all_at_exit` says otherwise.
    """
    enter(job)
    store = mx.kv.create("dist_sync" if job.run.system.sync == "sync" else "dist_async")
    _set_barrier_before_exit(store, False)
    return store


def wait_for_all_at_exit(store: Any) -> None:
    """Have the store wait for the other workers and let the servers go when it is freed."""
    _set_barrier_before_exit(store, True)


def _set_barrier_before_exit(store: Any, wanted: bool) -> None:
    """Reach for a setting that MXNet's library has and its Python lost."""
    call = mx.base._LIB.MXKVStoreSetBarrierBeforeExit
    mx.base.check_call(call(store.handle, ctypes.c_int(wanted)))
