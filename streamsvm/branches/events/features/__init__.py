"""Features of raw events: declared once, compiled into columns, and the same in training and in scoring.

A `Recipe` says which field of an event becomes which columns (`recipe.py`); `declaring.py` reads it from a
configuration, and refuses what cannot be meant; `columns.py` evaluates it. Each version carries its recipe, so that a
scorer, a subscriber or a program in another language makes the same numbers of the same event.

Invariant: the columns of an event are a pure function of the event and the recipe. Nothing is learned from the stream,
nothing depends on the other events of a batch, and nothing on the machine: even the rules of time zones stand in the
recipe.
"""
