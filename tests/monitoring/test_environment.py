import os
import subprocess
import sys

import numpy as np
import psutil

from horizont.monitoring.environment import describe_environment, machine_type


def test_the_environment_tells_the_machine_and_not_whose_it_is():
    facts = describe_environment()
    assert facts["cpu"]["logical_cores"] == psutil.cpu_count()
    assert facts["cpu"]["affinity"] == sorted(os.sched_getaffinity(0))
    assert facts["memory_bytes"] == psutil.virtual_memory().total
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["kernel"] == os.uname().release
    assert os.uname().nodename not in str(facts).split("'")


def test_machines_with_another_processor_memory_or_kernel_differ():
    machine = machine_type()
    facts = describe_environment()
    for fact in (facts["cpu"]["model"], facts["cpu"]["revision"], facts["kernel"]):
        assert str(fact) in machine
    assert f"{facts['memory_bytes'] / 2**30:.0f} GiB" in machine
    assert all(feature in machine for feature in facts["cpu"]["features"])
    assert os.uname().nodename not in machine


def test_versions_can_be_those_of_another_environment():
    facts = describe_environment("3.13.0", {"numpy": "2.5.5"})
    assert (facts["python"], facts["packages"]) == ("3.13.0", {"numpy": "2.5.5"})


def test_looking_up_versions_loads_no_framework():
    code = (
        "import sys; from horizont.monitoring.environment import describe_environment\n"
        "describe_environment()\n"
        "sys.exit(bool({'torch', 'tensorflow', 'mxnet'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
