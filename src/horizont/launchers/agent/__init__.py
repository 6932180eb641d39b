"""Host agents: a program on each host of a run, which calls back to the launcher.

An engine (Slurm, ssh, MPI) only starts the agents; everything that needs local process IDs, ports,
files and signals happens in the agent. `wire` has the frames of the connection, `host` the agent,
`connections` and `cluster` the launcher's side, `clock` the clocks of the hosts.
"""
