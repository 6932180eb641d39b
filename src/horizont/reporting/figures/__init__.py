"""The figures of the book, registered by name; see `horizont.reporting.registry`."""
