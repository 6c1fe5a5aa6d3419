"""The next release beside this one: what goes on, what is refused, and the way back."""
