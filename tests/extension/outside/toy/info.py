"""A description of the toy framework, without importing it."""

from horizont.config.framework import FrameworkInfo, SystemInfo

INFO = FrameworkInfo(
    label="Toy",
    distributions=("numpy",),
    import_names=("toy",),
    colour="#2a7f62",
    marker="d",
    systems={"local": SystemInfo(mechanism="NumPy")},
)
