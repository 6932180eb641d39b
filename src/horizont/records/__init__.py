"""The records of runs on disk: versioned, written atomically and checked on reading."""
