"""Support vector machines: kernels, objective and optimality, models, and solvers behind one interface."""
