// The runs of entries. They come in blocks, newest last; a page asks for as many of the newest as it shows.
(function () {
  "use strict";
  var COLUMNS = ["time", "uid"], NUMBERED = ["verdict", "machine", "kind", "definition"], stores = {};

  /** Calls `done` with what is known of an entry: its head, and the columns of the runs that were loaded so far. */
  bench.entry = function (slug, done, failed) {
    if (stores[slug]) return done(stores[slug]);
    bench.load("entries/" + slug, function (head) {
      stores[slug] = stores[slug] || { slug: slug, head: head, left: head.blocks.length, blocks: [], runs: merged([]), judged: {} };
      done(stores[slug]);
    }, failed);
  };

  /** Loads blocks, the newest first, until `isEnough(runs)`, then calls `done(runs)`. */
  bench.loadRuns = function (store, isEnough, done) {
    if (!store.left || isEnough(store.runs)) return done(store.runs);
    var number = store.left - 1, block = store.head.blocks[number];
    bench.load("entries/" + store.slug + "/" + number, function (found) {
      if (store.left === number + 1) {
        store.blocks.unshift(found);
        store.left = number;
        store.runs = merged(store.blocks);
      }
      bench.loadRuns(store, isEnough, done);
    }, null, block[1]);
  };

  /** Calls `done` with the judgement of the entry on a machine, by metric. */
  bench.loadJudged = function (store, machine, done) {
    var known = store.head.machines.find(function (one) { return one[0] === machine; });
    if (!known) return done({});
    bench.load("entries/" + store.slug + "/" + known[1], done, function () { done({}); });
  };

  function merged(blocks) {
    var runs = { sessions: [], session: [], values: {}, log: {}, why: {}, began: {}, verdicts: [], machines: [], kinds: [], definitions: [] };
    COLUMNS.concat(NUMBERED).forEach(function (name) { runs[name] = []; });
    blocks.forEach(function (block) {
      var first = runs.time.length, firstSession = runs.sessions.length;
      runs.sessions = runs.sessions.concat(block.sessions);
      block.session.forEach(function (number) { runs.session.push(firstSession + number); });
      COLUMNS.forEach(function (name) { runs[name] = runs[name].concat(block[name]); });
      NUMBERED.forEach(function (name) { block[name].forEach(function (number) { runs[name].push(block[name + "s"][number]); }); });
      ["log", "why", "began"].forEach(function (name) {
        Object.keys(block[name]).forEach(function (place) { runs[name][first + Number(place)] = block[name][place]; });
      });
      Object.keys(block.values).forEach(function (metric) {
        var column = runs.values[metric] = runs.values[metric] || [];
        while (column.length < first) column.push(null);
        block.values[metric].forEach(function (value) { column.push(value); });
      });
    });
    return runs;
  }

  /** The runs of a line by their place, oldest first: of a machine, of a branch (empty: any), at most so many (0: all). */
  bench.rowsOf = function (runs, line, most) {
    var rows = [];
    for (var row = 0; row < runs.time.length; row += 1) {
      var branch = runs.sessions[runs.session[row]][3] || "";
      if (runs.machine[row] === line.machine && (!line.branch || branch === line.branch)) rows.push(row);
    }
    return most ? rows.slice(-most) : rows;
  };

  bench.valueOf = function (runs, metric, row) {
    var column = runs.values[metric];
    return column && column[row] != null ? column[row] : null;
  };
})();
