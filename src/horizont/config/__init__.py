"""What a study runs: frozen, checked models of its settings. Importing them loads no framework."""
