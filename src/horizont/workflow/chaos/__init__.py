"""Faults at random moments: short runs whose processes are killed, paused and starved."""
