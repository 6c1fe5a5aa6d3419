"""Reducers: a set of weighted points to a smaller one, each by its rule of sampling."""
