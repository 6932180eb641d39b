"""What several processes do together for the theory notebooks, over sockets, in NumPy.

It measures nothing that this study compares; `horizont.launchers` starts the processes of runs.
"""
