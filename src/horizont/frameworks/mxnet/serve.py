"""MXNet's passive processes: the scheduler and the servers."""

from __future__ import annotations

from horizont.errors import UserError
from horizont.frameworks.mxnet.compat import mx
from horizont.frameworks.mxnet.roles import enter
from horizont.spec import ProcessJob


def serve(job: ProcessJob) -> None:
    """Serve until the workers have left.

    With a role in its environment MXNet serves while it is being imported, and ends the
    process. Here it was imported without one, and is asked to serve afterwards: the same loop,
    but one that returns.
    """
    if job.role not in ("scheduler", "server"):
        raise UserError("role", job.role, ["scheduler", "server"])
    enter(job)
    mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist")).run()
