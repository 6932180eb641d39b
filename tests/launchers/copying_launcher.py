"""A launcher from outside the package whose hosts share no file system with the launcher.

Each host is a folder on this machine. Processes see nothing but copies below it: all paths of a
plan are replaced when a process is started, and its outputs are copied back on request.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from horizont.config.base import ConfigModel
from horizont.config.jobs import WorkerJob
from horizont.config.topology import Capability, Topology
from horizont.launchers.local import LocalCluster
from horizont.launchers.plan import JOB_FILE, ProcessPlan
from horizont.launchers.process import ProcessGroup


class CopyingOptions(ConfigModel):
    """Options of the launcher."""

    prefix: str = "host-"


class CopyingLauncher:
    """Hosts as folders."""

    capabilities: frozenset[Capability] = frozenset()
    settings: frozenset[str] = frozenset()
    Options = CopyingOptions

    def unavailable_reason(self, topology: Topology) -> str:
        del topology
        return ""

    @contextlib.contextmanager
    def open(self, topology: Topology, folder: Path) -> Iterator[CopyingCluster]:
        with contextlib.ExitStack() as stack:
            options = CopyingOptions.model_validate(topology.options)
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=options.prefix)))
            yield CopyingCluster(topology, stack, folder, scratch)


class CopyingCluster(LocalCluster):
    """Folders below `scratch`, one for each host."""

    def __init__(
        self, topology: Topology, stack: contextlib.ExitStack, record: Path, scratch: Path
    ) -> None:
        super().__init__(topology, stack)
        self.hosts = topology.all_hosts
        self.record = record
        self.scratch = scratch

    def path_on(self, host: str, path: Path) -> Path:
        """Return the place of a file of the launcher's machine on a host."""
        return self.scratch / host / path.relative_to("/")

    def start(self, plan: ProcessPlan, log: Path) -> CopyingHandle:  # type: ignore[override]
        assert isinstance(plan.job, WorkerJob)
        paths = {plan.job.data_folder, self.record}
        for source in plan.inputs:
            if source.name != JOB_FILE:
                shutil.copytree(source, self.path_on(plan.host, source), dirs_exist_ok=True)

        def translate(text: str) -> str:
            for path in paths:
                text = text.replace(str(path), str(self.path_on(plan.host, path)))
            return text

        remote_plan = dataclasses.replace(
            plan,
            argv=tuple(translate(argument) for argument in plan.argv),
            environment={name: translate(text) for name, text in plan.environment.items()},
            folder=self.path_on(plan.host, plan.folder),
            job=WorkerJob.model_validate(json.loads(translate(plan.job.model_dump_json()))),
        )
        return CopyingHandle(plan, ProcessGroup(remote_plan, log))

    def release(self, barrier: Path) -> None:
        for host in self.hosts:
            self.path_on(host, barrier).touch()


class CopyingHandle:
    """A process that works on copies."""

    def __init__(self, plan: ProcessPlan, process: ProcessGroup) -> None:
        self.plan = plan
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)

    def fetch_outputs(self) -> None:
        assert not list(self.plan.folder.iterdir()), "written without the protocol"
        shutil.copytree(self._process.plan.folder, self.plan.folder, dirs_exist_ok=True)


LAUNCHER = CopyingLauncher()
