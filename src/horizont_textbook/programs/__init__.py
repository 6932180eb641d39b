"""Programs of chapter 11; each is short, self-contained, and shown on the page as it is.

They read ``examples.npz`` from the folder above their own, ``x`` (steps, examples, features) and
``labels`` (steps, examples), train a softmax classifier from zero weights, and write
``result.npz`` with ``losses``, ``weight`` (features, classes) and ``bias``.
"""
