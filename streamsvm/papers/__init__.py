"""The algorithms of two papers as published, and the solvers that others wrote: to compare with the trunk's own.

==================== =========================================== ================================================
module               what it has                                 chosen by
==================== =========================================== ================================================
`stda`               STDA-SVM, Algorithms 1 to 4                 `svm.solver = stda-paper`
`foreign`            LIBSVM, LIBLINEAR and Pegasos               `svm.solver = libsvm`, `liblinear`, `pegasos`
`clustered`          Alg. 1: bounds of sensitivities by clusters `coreset.reducer = sensitivity`
`counter`            Alg. 2: buckets as digits of a counter      `coreset.structure = counter`
==================== =========================================== ================================================

The trunk knows none of these modules: `plug` lists them by name (`streamsvm.sockets`), and this folder may be deleted.

Sources: Tukan, Baykal, Feldman and Rus, *On Coresets for Support Vector Machines* (2020); Liuzzi, Lucidi, Manno and
Rinaldi, *A space transformation decomposition technique* (2015). Each module lists where it differs.
"""
