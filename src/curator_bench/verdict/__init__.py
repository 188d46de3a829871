"""Verdicts: requirements, and judgements of the history of a metric. Pure functions from numbers to a word.

Other rooms import from these modules; the rest of the room is private to it.

`judgement` (standard library only)
    `Word`        the four words: regression, improvement, no change, inconclusive. A comparison prints no others.
    `Judgement`   the answer about a metric. It has a `word`, or None and `unjudged` (`no history`, `not comparable`).
                  `says` is the text to print, `reason` a sentence, and `decides` what would decide an inconclusive one.
    `Course`      a whole history: levels, steps (`Step`), and the judgement of its newest runs.
    `Drift`, `Mark`
`judging`
    `judge(questions)`          judge the newest runs of each metric, against its history or a baseline of its own
    `courses(histories)`        find levels and steps of many whole histories
    `drifts(histories, marks)`  measure drift since a mark: the best level, a release, 30 or 90 days ago
    `compare(pairs)`            judge the runs of B against those of A
    `compare_rounds(rounds)`    judge two environments that were measured in turns
    `visible_change(noise, history, newest)`   return the smallest change that so many runs can show
`findings`
    `findings(changes)`         group steps by their cause
`sequential`       bisecting: judge whether the two ends differ, and which of them a commit is like
`requirements`, `gates`, `failure_table`       check bounds, choose the gated metrics, and show the checks
`direction`, `comparable`, `false_discovery`   which way is better; which runs are comparable; which steps to report

How they decide: `levels` cuts histories into levels, and `noise` measures how runs differ within a level. `newest`
compares the newest runs of a history with its last level, and `ends` does so for all histories and numbers of newest
runs. `locating` finds the runs between which a step lies, and `drifting` compares the present level with marks.
`distributions` has the probabilities, as scores: minus their logarithm.
"""
