// Two sessions side by side: every metric both have measured, and what differs in their environments.
(function () {
  "use strict";
  var words = bench.words, element = bench.element;
  var chosen = { a: document.getElementById("a"), b: document.getElementById("b") };
  var which = document.getElementById("which"), only = document.getElementById("only"), said = document.getElementById("said");
  var index, byEntry = {}, shown = 0;
  var MOST_ROWS = 2000;
  var WORDS = ["regression", "improvement", "inconclusive", "no change", "no history", "not comparable"];
  var NOTABLE = ["regression", "improvement", "inconclusive"];

  function start(found) {
    index = found;
    index.entries.forEach(function (entry) { byEntry[entry.slug] = entry; });
    Object.keys(chosen).forEach(function (side) {
      chosen[side].append.apply(chosen[side], index.sessions.map(function (session) {
        var commit = session[3] ? ", " + session[3].slice(0, 8) : "";
        return element("option", { value: session[0] }, session[1] + " (" + session[2] + commit + ")");
      }));
      chosen[side].addEventListener("change", function () { remember(); show(); });
    });
    document.getElementById("swap").addEventListener("click", function () {
      var before = chosen.a.value;
      chosen.a.value = chosen.b.value;
      chosen.b.value = before;
      remember();
      show();
    });
    which.addEventListener("change", function () { remember(); show(); });
    only.addEventListener("input", function () { remember(); show(); });
    window.addEventListener("hashchange", function () { recall(); show(); });
    recall();
    show();
  }

  function recall() {
    var place = bench.place(), newest = index.sessions;
    chosen.a.value = place.get("a") || (newest[1] || newest[0] || [""])[0];
    chosen.b.value = place.get("b") || (newest[0] || [""])[0];
    which.value = place.get("which") || "notable";
    only.value = place.get("only") || "";
  }

  function remember() {
    bench.setPlace({ a: chosen.a.value, b: chosen.b.value, which: which.value === "notable" ? null : which.value, only: only.value || null });
  }

  function show() {
    var turn = ++shown, sides = {};
    function missing() { said.textContent = "One of these sessions is not in this site."; }
    if (!chosen.a.value || !chosen.b.value) return missing();
    Object.keys(chosen).forEach(function (side) {
      bench.load("sessions/" + chosen[side].value, function (session) {
        sides[side] = session;
        if (sides.a && sides.b && turn === shown) judge(sides.a, sides.b, turn);
      }, missing);
    });
  }

  /** Renders with the judgements of the pair, or without them where the pair was not judged. */
  function judge(a, b, turn) {
    if (!index.compared.includes(a.slug + "/" + b.slug)) return render(a, b, null);
    bench.load("compared/" + a.slug + "/" + b.slug, function (found) { if (turn === shown) render(a, b, found); });
  }

  function render(a, b, found) {
    var rows = [], counts = { both: 0, apart: 0 }, judged = judgements(found);
    WORDS.forEach(function (word) { counts[word] = 0; });
    Object.keys(b.runs).forEach(function (slug) {
      if (a.runs[slug]) compareEntry(byEntry[slug], runOf(a, slug), runOf(b, slug), judged, rows, counts);
    });
    rows.sort(function (one, other) { return one.place - other.place || other.size - one.size; });
    var parts = [counts.both + " metrics of both"], told = document.getElementById("words");
    told.replaceChildren.apply(told, WORDS.filter(function (word) { return judged && counts[word]; }).map(function (word) {
      return element("li", {}, element("span", { class: "word w-" + word.replace(" ", "-") }, counts[word] + " " + word));
    }));
    if (counts.apart) parts.push(counts.apart + " entries are not comparable: another machine or another series");
    said.textContent = parts.join(", ") + "." + (judged ? "" : " This pair is not judged here; run: curator-bench compare " + a.name + " " + b.name);
    document.getElementById("compared").replaceChildren(rows.length ? table(rows.slice(0, MOST_ROWS)) : element("p", { class: "card" }, "Nothing stands out."));
    document.getElementById("differences").replaceChildren(differences(a, b));
  }

  /** What a session measured of an entry: verdict, machine, series, and values by metric. */
  function runOf(session, slug) {
    var run = session.runs[slug], values = {};
    run[3].forEach(function (number, place) { values[session.metrics[number]] = run[4][place]; });
    return [run[0], run[1], run[2], values];
  }

  /** The judgements of a pair of sessions by entry, metric and machine; null where the pair was not judged. */
  function judgements(found) {
    if (!found) return null;
    var by = {};
    found.forEach(function (one) {
      by[one.slice(0, 3).join("\n")] = { says: one[3], reason: one[4], before: one[5], after: one[6], change: one[7], interval: [one[8], one[9]], visible: one[10] };
    });
    return by;
  }

  function compareEntry(entry, a, b, judged, rows, counts) {
    if (a[0] !== b[0] && fits(entry, "verdict"))
      rows.push({ entry: entry, metric: "verdict", machine: b[1], before: a[0], after: b[0], says: "", place: -1, size: 0 });
    if (a[1] !== b[1] || a[2] !== b[2]) { counts.apart += 1; return; }
    entry.metrics.forEach(function (metric) {
      var before = a[3][metric], after = b[3][metric];
      if (before == null || after == null) return;
      counts.both += 1;
      var found = judged && judged[[entry.slug, metric, b[1] || ""].join("\n")], says = found ? found.says : "";
      if (says) counts[says] += 1;
      if (found && found.before != null) { before = found.before; after = found.after; }
      var change = found && found.change != null ? found.change : before === after ? 0 : (after - before) / Math.abs(before);
      var notable = judged ? NOTABLE.includes(says) : true;
      if ((which.value === "all" || notable) && fits(entry, metric))
        rows.push({ entry: entry, metric: metric, machine: b[1], before: words.value(before, metric), after: words.value(after, metric), change: change, found: found || {}, says: says,
          place: says ? WORDS.indexOf(says) : WORDS.length, size: Math.abs(change) });
    });
  }

  function fits(entry, metric) {
    var text = (entry.name + " " + metric).toLowerCase();
    return only.value.toLowerCase().split(/\s+/).every(function (word) { return text.includes(word); });
  }

  function table(rows) {
    var heads = ["Entry", "Metric", "Machine", "A", "B", "Change", "95 % interval", "Visible from", "Verdict"];
    var head = element("tr", {}, heads.map(function (title, place) { return element("th", { scope: "col", class: place > 2 && place < 8 ? "num" : null }, title); }));
    var body = element("tbody", {}, rows.map(function (row) {
      var link = bench.top + "entries/" + row.entry.slug + ".html" + (row.change == null ? "" : "#metric=" + encodeURIComponent(row.metric));
      var found = row.found || {}, interval = found.interval && found.interval[0] != null ? found.interval.map(words.change).join(" to ") : "–";
      return element("tr", {}, [
        element("th", { scope: "row" }, element("a", { href: link }, row.entry.name)),
        element("td", {}, row.metric),
        element("td", { class: "mono quiet" }, row.machine || "–"),
        element("td", { class: "num" }, row.before),
        element("td", { class: "num" }, row.after),
        element("td", { class: "num", "data-value": row.change == null || !isFinite(row.change) ? "" : row.change },
          element("span", { class: "change " + row.says.replace(" ", "-") }, row.change == null ? "changed" : words.change(row.change))),
        element("td", { class: "num quiet" }, interval),
        element("td", { class: "num quiet", "data-value": found.visible == null ? "" : found.visible }, found.visible == null ? "–" : Number((100 * found.visible).toPrecision(2)) + " %"),
        element("td", { title: found.reason || null }, row.says ? element("span", { class: "word w-" + row.says.replace(" ", "-") }, row.says) : "–"),
      ]);
    }));
    var made = element("table", { class: "list sortable" }, [element("caption", { class: "hidden" }, "Metrics of both sessions"), element("thead", {}, head), body]);
    bench.setUpSorting(made);
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Metrics of both sessions" }, made);
  }

  function differences(a, b) {
    var known = [a, b].every(function (session) { return Object.keys(session.packages).length; });
    var both = [a, b].map(function (session) {
      return Object.assign({ commit: session.commit || "", branch: session.branch || "" }, known ? session.packages : {}, session.environment);
    });
    var names = Object.keys(Object.assign({}, both[0], both[1])).filter(function (name) { return (both[0][name] || "") !== (both[1][name] || ""); });
    if (!names.length) return element("p", { class: "card" }, "Nothing: commit, branch, machine and " + (known ? "all packages" : "packages under test") + " are the same.");
    var rows = names.map(function (name) {
      return element("tr", {}, [element("th", { scope: "row" }, name)].concat(both.map(function (facts) { return element("td", { class: "mono" }, facts[name] || "–"); })));
    });
    var head = element("tr", {}, ["What", "A", "B"].map(function (title) { return element("th", { scope: "col" }, title); }));
    var made = element("table", { class: "list" }, [element("caption", { class: "hidden" }, "What differs"), element("thead", {}, head), element("tbody", {}, rows)]);
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences of the environments" }, made);
  }

  bench.load("index", start);
})();
