"""Whether the frameworks train the same network: distances, bounds and a certificate."""
