"""The process that trains: reads a job file, loads one framework, writes its part of a record."""
