"""The programs of the tutorial: each is short, stands alone, and is shown on the page as it is.

They read ``examples.npz`` from the folder above their own, ``x`` (steps, examples, features) and
``labels`` (steps, examples), train a softmax classifier that starts from zeros, and leave
``told.npz`` with ``losses``, ``weight`` (features, classes) and ``bias``. They belong to no
measurement: a change here leaves all records of runs valid.
"""
