"""Verdicts: requirements, and judgements of the history of a metric. Pure functions from numbers to a word.

Other rooms import from these modules; the rest of the room is private to it.

`judgement` (standard library only)
    `Word`        the four words: regression, improvement, no change, inconclusive. A comparison prints no others.
    `Judgement`   the answer about a metric. It has a `word`, or None and `unjudged` (`no history`, `not comparable`).
                  `says` is the text to print, `reason` a sentence, and `decides` what would decide an inconclusive one.
    `Trend`       a whole history: levels, steps (`Step`), and the judgement of its newest runs.
    `Drift`, `Mark`
`judging`
    `judge(questions)`          judge the newest runs of each metric, against its history or a baseline of its own
    `compare(pairs)`            judge the runs of B against those of A
`trends`
    `trends(histories)`         find levels and steps of many whole histories
`drifting`
    `drifts(histories, marks)`  measure drift since a mark: the best level, a release, 30 or 90 days ago
`turns`
    `standings(turns, plan)`    judge two sides that are measured in turns, after each round, and say whether to go on
`limits`
    `scatter_of(values, levels)`    propose limits that noise alone hardly exceeds, and say what a limit catches
`visible`
    `visible_change(noise, history, newest)`   return the smallest change that so many runs can show
`findings`
    `findings(changes)`         group steps by their cause
`sequential`       bisecting: judge whether the two ends differ, and which of them a commit is like
`requirements`, `gates`, `failure_table`       check bounds, choose the gated metrics, and show the checks
`direction`, `comparable`, `false_discovery`   which way is better; which runs are comparable; which steps to report

How they decide, in the order to read it (docs/how-regressions-are-judged.md says the same without code):

1. `scale` and `cases`: a metric is judged on a logarithm, on which higher is worse. A number there is called a place.
2. `distributions`: probabilities are scores, minus their logarithm: 7 is about one in 1,000, and more is rarer.
3. `noise`: how runs differ within a level, without outliers. Tables have a history a row, filled up with NaN.
4. `levels`: a history is cut into levels.
5. `newest`: some newest runs are compared with the last level. Chance and outliers must both fail to explain them.
6. `ends`: `newest` is asked about the last one, two, three, … runs of each history; the clearest answer counts.
7. `locating` and `drifting`: the runs between which a step lies; the level now compared with the level at marks.
8. `contrast`: two sides in turns, by all runs against all and by round against round; `turns` looks after each round.
"""
