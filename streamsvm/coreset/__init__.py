"""Bounded memory of a labeled stream: merge and reduce of weighted coresets, for any number of labels in one code.

    rows -> leaf -> screen -> bucket -> tree -> cut

Rows of a partition collect in a leaf. A full leaf becomes a bucket of weighted points; where there are too many
buckets, the two lightest neighbours become one. Which points stay is decided by a *pilot*: rough machines of everything
that is kept, one a problem. Two labels are one problem, K labels are K problems, each label against the rest. Once
there is a pilot, a leaf spans a quarter of all rows before it: a row is kept by chance, in proportion to what it is
worth, and all rows add to exact totals.

Source: Tukan, Baykal, Feldman and Rus 2020, "On Coresets for Support Vector Machines"; where we differ is said in
`reduce`.
"""
