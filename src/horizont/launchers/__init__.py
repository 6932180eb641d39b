"""From a run to its processes: planned first, then started, supervised and stopped as a whole."""

#: The launchers: name in ``topology.launcher`` -> module with a `LAUNCHER`, imported on demand.
LAUNCHERS: dict[str, str] = {
    "local": "horizont.launchers.local",
    "emulated": "horizont.launchers.emulated",
    "emulated_agents": "horizont.launchers.emulated_agents",
    "slurm": "horizont.launchers.slurm",
    "command": "horizont.launchers.command",
    "standby": "horizont.launchers.standby",
}
