"""Tables from records: runs, throughput, phases, resources, communication, verdicts."""
