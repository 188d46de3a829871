// Two sessions side by side, for the pages that compare: what each measured of an entry, and the judgements of the pair.
(function () {
  "use strict";
  var pairs = bench.pairs = {};

  pairs.WORDS = ["regression", "improvement", "inconclusive", "no change", "no history", "not comparable"];

  /** The options of a choice of sessions, the newest first. */
  pairs.options = function (index) {
    return index.sessions.map(function (session) { return [session[0], session[1] + " (" + session[2] + (session[3] ? ", " + session[3].slice(0, 8) : "") + ")"]; });
  };

  /** Loads two sessions, and calls `done` with both and their judgements by entry, metric and machine; null where the
   *  pair was not judged. */
  pairs.load = function (index, a, b, done, missing) {
    bench.load("sessions/" + a, function (first) {
      bench.load("sessions/" + b, function (second) {
        if (!index.compared.includes(a + "/" + b)) return done(first, second, null);
        bench.load("compared/" + a + "/" + b, function (found) { done(first, second, judgements(found)); }, function () { done(first, second, null); });
      }, missing);
    }, missing);
  };

  function judgements(found) {
    var by = {};
    found.forEach(function (one) {
      by[one.slice(0, 3).join("\n")] = { says: one[3], reason: one[4], before: one[5], after: one[6], change: one[7], interval: [one[8], one[9]], visible: one[10] };
    });
    return by;
  }

  /** The last run of an entry in a session on each machine; the last of all comes first. */
  function runsOf(session, slug) { return session.runs[slug] ? [session.runs[slug]].concat(session.elsewhere[slug] || []) : []; }

  /** The machines that ran an entry in a session. */
  pairs.machinesOf = function (session, slug) { return runsOf(session, slug).map(function (run) { return run[1] || ""; }); };

  /** What a session measured of an entry, last or on this machine; null if it did not run it there. */
  pairs.runOf = function (session, slug, machine) {
    var run = runsOf(session, slug).find(function (one) { return machine == null || (one[1] || "") === machine; }), values = {}, parameters = {};
    if (!run) return null;
    run[3].forEach(function (number, place) { values[session.metrics[number]] = run[4][place]; });
    run[6].forEach(function (pair) { parameters[session.texts[pair[0]]] = session.texts[pair[1]]; });
    return { verdict: run[0], machine: run[1] || "", series: run[2], values: values, definition: session.texts[run[5]], parameters: parameters };
  };

  /** How a metric changed between two runs; null if one of them did not measure it. `says` is empty if it is not judged. */
  pairs.change = function (slug, metric, a, b, judged) {
    var before = a ? a.values[metric] : null, after = b ? b.values[metric] : null;
    if (before == null || after == null) return null;
    if (a.machine !== b.machine || a.series !== b.series)
      return { says: "not comparable", reason: a.machine !== b.machine ? "another machine" : "another series", before: before, after: after, change: null };
    var found = judged && judged[[slug, metric, b.machine].join("\n")];
    if (found && found.before != null) { before = found.before; after = found.after; }
    var change = found && found.change != null ? found.change : before === after ? 0 : (after - before) / Math.abs(before);
    return Object.assign({ says: "", reason: "", interval: [null, null], visible: null }, found || {}, { before: before, after: after, change: change });
  };

  pairs.notJudged = function (a, b) { return "This pair is not judged here; run: curator-bench compare " + a.name + " " + b.name; };
})();
