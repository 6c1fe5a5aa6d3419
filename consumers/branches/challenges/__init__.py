"""Challenges: a version becomes current once it was better in the shadow of the current one."""
