"""Decides what a run is: requirements, and what the history of a metric says. Pure functions from numbers to a word.

Import from these modules; the room's other modules are its own.

`judgement` (standard library only)
    `Word`        the four: regression, improvement, no change, inconclusive. Nothing else is printed for a comparison.
    `Judgement`   the answer: `word`, or None with `unjudged` (`no history`, `not comparable`); `says` is the text to
                  print; before, after, change, interval, p_value, began, history, noise, visible; `reason` is a
                  sentence, and `decides` says of what is inconclusive what would decide it.
    `Course`      a whole history: levels, steps (`Step`), and the judgement of its newest runs.
    `Drift`, `Mark`
`judging`
    `judge(questions)`          the newest runs of each metric against its history, or against a baseline of its own
    `courses(histories)`        levels and steps of many whole histories
    `drifts(histories, marks)`  what has crept up since a mark: its best level, a release, 30 or 90 days ago
    `compare(pairs)`            the runs of B against those of A
    `compare_rounds(rounds)`    what two environments measured in turns
    `visible_change(noise, history, newest)`   what could have been seen with so many runs, or with more of them
`findings`
    `findings(changes)`         what became slower or faster together: one cause each
`sequential`       whether the two ends of a bisection differ (a judgement), and which of them a commit is like
`requirements`, `gates`, `failure_table`       bounds, which metrics are gated, and how checks are told
`direction`, `comparable`, `false_discovery`   which way is better, which runs are comparable, what of many is believed

How they decide: `levels` cuts histories into levels, `noise` says how runs scatter within them, `newest` weighs the
newest runs of a history against its last level, `ends` does so for all histories and all numbers of newest runs,
`locating` says between which runs a step lies, and `drifting` compares the level now with marks. `distributions` holds
the probabilities, as scores: minus their logarithm.
"""
