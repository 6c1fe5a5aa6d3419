"""Labels that come later: features of one log and labels of another, joined by key; without I/O, clock or threads."""
