"""What every daemon needs of the machine: a run until a signal, supervision, clocks, HTTP."""
