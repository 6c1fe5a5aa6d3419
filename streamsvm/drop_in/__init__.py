"""In the place of scikit-learn's support vector machines: `STDASVC` and its like, and a patch of unchanged programs.

`STDASVC`, `STDASVR`, `STDAOneClassSVM`, `STDALinearSVC` and `STDALinearSVR` are subclasses that train on all points;
`patch_sklearn` puts them in, and so does `python -m streamsvm.drop_in PROGRAM.py`. All are offered by `streamsvm`, too.

===================================================== ===========================================================
module                                                what it has
===================================================== ===========================================================
`stdasvc`, `single`, `linear`                         the classes
`patching`, `__main__`                                scikit-learn's own names stand for them
`base`                                                what the classes of LIBSVM's kind share
`fitted`, `recheck`                                   whether a machine is what was fitted, and optimal
`centring`                                            rows far from the origin
`pairs`, `small`                                      several classes; problems whose kernel matrix is at hand
`expansion`, `tube`, `one_class`, `few_points`        regression and one class, by `streamsvm.svm.block.descent`
`squared_loss`                                        linear machines of squared loss
===================================================== ===========================================================

The trunk knows none of these modules: `plug` lists by name what they offer (`streamsvm.sockets`), and this folder may
be deleted.
"""
