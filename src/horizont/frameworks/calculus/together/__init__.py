"""The exercises of `horizont.theory.together` by a framework that can send between processes.

Of the three that is PyTorch alone.
"""
