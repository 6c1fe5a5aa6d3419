"""The shipped trainer, learner and checkpoint code in a simulated world, under every interleaving.

A world is a broker (`broker`), disks (`disk`) and people (`people`); the trainer reaches it through `ports`, and every
call is a point at which `world` may let something else happen first, as a `choices.Chooser` says. What must hold
whatever happens is `invariants`; what shows that a breach would be found is `defects`.
"""
