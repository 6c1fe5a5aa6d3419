"""The live harness: daemons as processes, real brokers, faults, and a checker that judges what came of it.

A scenario is a row of a table (`scenarios.py`), some ten lines of data:

    Scenario(
        name="a short cut only delays",                   # a sentence: what holds
        steps=(                                           # workload and strikes, in their order
            feed(1_000), begin(), amid(),
            lean(cut(), not_ready("broker")), mend(),
        ),
        end=same(),                                       # what must have come of it
        on="own",                                         # which broker: "shared", "own" (behind a proxy), "three"
        planted=("steady",),                              # what is changed in the process: disturbances, defects
        quick=True,                                       # whether `make test` runs it, or the nightly run only
    )

`run` (`scenario.py`) makes the input, takes the steps, then the end, and has the checker judge, whatever the end was:
`Play.judge` recomputes every version (`verify`), checks the promise over the topics, and gives the recorded history to
`tests.live.checker`. `same` lets another trainer read the same input, which nothing strikes, and compares byte by byte.
`found="words"` says that the row is there to show that a defect is found: the failure must say these words.

- A step is a function of the `Play`, made by calling one of `strikes.py`: `feed(90)`, `crash("cut.emitted")`.
  A new verb is a function there under `@step`; what only one row needs may stand beside that row as a plain function of
  the play. `play.daemon` is the life that was begun last, `play.due` the newest version that all rows fed are good for.
- What a row lets happen that is no fault of the trainer's goes into `but`: names of `checker/anomalies.py`.
- A scenario that plants a defect names it as in `tests.defects`.
- Rows that differ in a point, a signal or a moment are made by a loop over these.

Scorers (`scoring.py`, and what strikes their brokers and their group: `struck.py`) and workers (`adopting.py`) have
verbs of their own, and rows beside their tests.

`python -m tests.live` plays random faults upon everything at once: `--nemesis`, `--hours` (`__main__.py`).
`process.py` is a command as a process, `cluster.py` brokers behind networks that can be ill-treated (`proxy.py`),
`tests/kafka/foreign.py` what administrators do, `workload.py` what is fed, `history.py` what is written down of it.
"""
