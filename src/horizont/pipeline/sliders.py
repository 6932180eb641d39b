"""Pictures that a person can play with; the same notebook shows them plainly when it is run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from horizont.pipeline.progress import VARIABLE
from horizont.report import Picture

#: A value with what it may be: from least to greatest, or one of several words.
Choice = tuple[float, float, float] | tuple[str, ...]


def explore(draw: Callable[..., Picture], **choices: Choice) -> Any:
    """Show a picture; with sliders where a person is at the keyboard.

    Parameters
    ----------
    draw
        Draws the picture from the values, which it takes by name.
    choices
        Of each value: where it stands, the least and the greatest; or words, the first chosen.

    Returns
    -------
    Any
        The picture itself in a notebook that is run headlessly, so that no page holds controls
        that nobody answers.
    """
    if not someone_there():
        return draw(**{name: choice[0] for name, choice in choices.items()})
    from ipywidgets import interactive  # type: ignore[import-untyped]

    return interactive(draw, **{name: _control(choice) for name, choice in choices.items()})


def someone_there() -> bool:
    """Tell whether this is a notebook that was opened by hand: our runner names a file."""
    from IPython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None and VARIABLE not in os.environ


def _control(choice: Choice) -> Any:
    """Make the control that fits: a list of words, whole numbers, or any numbers."""
    from ipywidgets import Dropdown, FloatSlider, IntSlider

    value, least, greatest = (*choice, None, None)[:3]
    if isinstance(value, str):
        return Dropdown(options=choice)
    about = {"value": value, "min": least, "max": greatest, "continuous_update": False}
    if isinstance(value, int):
        return IntSlider(**about)
    return FloatSlider(**about, step=(greatest - least) / 100)
