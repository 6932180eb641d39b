"""Networks as data, independent of any framework, and their initial weights."""
