"""What raw events are to a person: the commands that propose features."""
