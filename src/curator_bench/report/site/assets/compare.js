// Two sessions side by side: what differs between them, then every metric both have measured, by machine and by verdict.
(function () {
  "use strict";
  var words = bench.words, element = bench.element, pairs = bench.pairs;
  var chosen = { a: document.getElementById("a"), b: document.getElementById("b") };
  var only = document.getElementById("only"), said = document.getElementById("said");
  var index, byEntry = {}, shown = 0;
  var MOST_ROWS = 2000, MOST_NAMES = 3, ENDED = "another verdict";
  var FOLDED = ["no change", "no history", "not comparable", "no direction"];

  function start(found) {
    index = found;
    index.entries.forEach(function (entry) { byEntry[entry.slug] = entry; });
    Object.keys(chosen).forEach(function (side) {
      bench.fill(chosen[side], pairs.options(index));
      chosen[side].addEventListener("change", function () { remember(); show(); });
    });
    document.getElementById("swap").addEventListener("click", function () {
      var before = chosen.a.value;
      chosen.a.value = chosen.b.value;
      chosen.b.value = before;
      remember();
      show();
    });
    only.addEventListener("input", function () { remember(); show(); });
    window.addEventListener("hashchange", function () { recall(); show(); });
    recall();
    show();
  }

  function recall() {
    var place = bench.place(), newest = index.sessions;
    chosen.a.value = place.get("a") || (newest[1] || newest[0] || [""])[0];
    chosen.b.value = place.get("b") || (newest[0] || [""])[0];
    only.value = place.get("only") || "";
  }

  function remember() { bench.setPlace({ a: chosen.a.value, b: chosen.b.value, only: only.value || null }); }

  function show() {
    var turn = ++shown;
    function missing() { said.textContent = "One of these sessions is not in this site."; }
    if (!chosen.a.value || !chosen.b.value) return missing();
    pairs.load(index, chosen.a.value, chosen.b.value, function (a, b, judged) { if (turn === shown) render(a, b, judged); }, missing);
  }

  function render(a, b, judged) {
    var rows = [], summary = document.getElementById("words"), counts = {};
    var both = [];
    Object.keys(b.runs).filter(function (slug) { return a.runs[slug]; }).forEach(function (slug) {
      var there = pairs.machinesOf(a, slug), shared = pairs.machinesOf(b, slug).filter(function (machine) { return there.includes(machine); });
      (shared.length ? shared : [null]).forEach(function (machine) {
        both.push({ entry: byEntry[slug], a: pairs.runOf(a, slug, machine), b: pairs.runOf(b, slug, machine) });
      });
    });
    both.forEach(function (one) { compareEntry(one, judged, rows); });
    rows.forEach(function (row) { counts[row.says] = (counts[row.says] || 0) + 1; });
    summary.replaceChildren.apply(summary, pairs.WORDS.filter(function (word) { return counts[word]; }).map(function (word) {
      return element("li", {}, pill(counts[word] + " " + word, word));
    }));
    said.textContent = rows.filter(function (row) { return row.says !== ENDED; }).length + " metrics of both." + (judged ? "" : " " + pairs.notJudged(a, b));
    var place = document.getElementById("compared"), sections = machinesOf(rows).map(function (machine) {
      return sectionOf(machine, rows.filter(function (row) { return row.machine === machine; }));
    });
    place.replaceChildren.apply(place, sections.length ? sections : [element("p", { class: "card" }, "Both sessions have no metric in common.")]);
    document.getElementById("differences").replaceChildren(differences(a, b, ofLastRuns(both)));
  }

  /** Each entry once, by the machine that ran it last: definitions and parameters are the same on all. */
  function ofLastRuns(both) {
    var seen = new Set();
    return both.filter(function (one) { return !seen.has(one.entry.slug) && seen.add(one.entry.slug); });
  }

  function compareEntry(one, judged, rows) {
    if (one.a.verdict !== one.b.verdict && fits(one.entry, "verdict"))
      rows.push({ entry: one.entry, metric: "verdict", machine: one.b.machine, before: one.a.verdict, after: one.b.verdict, says: ENDED, size: 0, found: {} });
    one.entry.metrics.forEach(function (metric) {
      var found = pairs.change(one.entry.slug, metric, one.a, one.b, judged);
      if (found && fits(one.entry, metric))
        rows.push({ entry: one.entry, metric: metric, machine: one.b.machine, says: found.says || (judged ? "no direction" : "not judged"), found: found, change: found.change,
          before: words.value(found.before, metric), after: words.value(found.after, metric), size: Math.abs(found.change || 0) });
    });
  }

  function fits(entry, metric) {
    var text = (entry.name + " " + metric).toLowerCase();
    return only.value.toLowerCase().split(/\s+/).every(function (word) { return text.includes(word); });
  }

  function machinesOf(rows) { return Array.from(new Set(rows.map(function (row) { return row.machine; }))).sort(); }

  /** The metrics of one machine by verdict. What did not change, or cannot be told, is folded. */
  function sectionOf(machine, rows) {
    var parts = [ENDED].concat(pairs.WORDS, "not judged", "no direction").map(function (word) { return [word, rows.filter(function (row) { return row.says === word; })]; });
    var section = element("section", { class: "machine" }, element("h3", {}, machine ? ["On ", element("span", { class: "mono" }, machine)] : "On a machine without a name"));
    parts.filter(function (part) { return part[1].length; }).forEach(function (part) { section.append(partOf(part[0], part[1], machine)); });
    return section;
  }

  function partOf(word, rows, machine) {
    rows.sort(function (one, other) { return other.size - one.size; });
    var summary = element("summary", {}, [pill(word, word), " " + rows.length]), made = element("details", { class: "part" }, summary);
    function fill() { if (made.open && made.children.length === 1) made.append(table(rows.slice(0, MOST_ROWS), word + (machine ? " on " + machine : ""))); }
    made.open = !FOLDED.includes(word);
    made.addEventListener("toggle", fill);
    fill();
    return made;
  }

  function pill(text, word) { return element("span", { class: "word w-" + word.replace(/ /g, "-") }, text); }

  function table(rows, name) {
    var heads = ["Entry", "Metric", "A", "B", "Change", "95 % interval", "Visible from"];
    var head = element("tr", {}, heads.map(function (title, place) { return element("th", { scope: "col", class: place > 1 ? "num" : null }, title); }));
    var body = element("tbody", {}, rows.map(rowOf));
    var made = element("table", { class: "list sortable" }, [element("caption", { class: "hidden" }, name), element("thead", {}, head), body]);
    bench.setUpSorting(made);
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, made);
  }

  function rowOf(row) {
    var link = bench.top + "entries/" + row.entry.slug + ".html" + (row.says === ENDED ? "" : "#metric=" + encodeURIComponent(row.metric));
    var found = row.found, interval = found.interval && found.interval[0] != null ? found.interval.map(words.change).join(" to ") : "–";
    var change = row.change == null ? found.reason || "changed" : words.change(row.change);
    return element("tr", { title: found.reason || null }, [
      element("th", { scope: "row" }, element("a", { href: link }, row.entry.name)),
      element("td", {}, row.metric),
      element("td", { class: "num" }, row.before),
      element("td", { class: "num" }, row.after),
      element("td", { class: "num", "data-value": row.change == null || !isFinite(row.change) ? "" : row.change }, element("span", { class: "change " + row.says.replace(/ /g, "-") }, change)),
      element("td", { class: "num quiet" }, interval),
      element("td", { class: "num quiet", "data-value": found.visible == null ? "" : found.visible }, found.visible == null ? "–" : Number((100 * found.visible).toPrecision(2)) + " %"),
    ]);
  }

  /** All that differs: commits, packages, machine, variables, and the definitions and parameters of entries. */
  function differences(a, b, both) {
    var known = [a, b].every(function (session) { return Object.keys(session.packages).length; });
    var facts = [a, b].map(function (session) {
      return Object.assign({ commit: session.commit || "", branch: session.branch || "" }, known ? session.packages : {}, session.environment);
    });
    var rows = differing(facts[0], facts[1]).concat(
      ofBoth(a.configuration, b.configuration).map(function (row) { return ["configuration " + row[0], row[1], row[2]]; }),
      variables(a.variables, b.variables), definitions(both), parameters(both));
    if (!rows.length) return element("p", { class: "card" }, "Nothing: commit, branch, machine, variables, parameters and " + (known ? "all packages" : "packages under test") + " are the same, as far as they are recorded.");
    var body = rows.map(function (row) {
      return element("tr", {}, [element("th", { scope: "row" }, row[0])].concat(row.slice(1).map(function (fact) { return element("td", { class: "mono" }, fact || "–"); })));
    });
    var head = element("tr", {}, ["What", "A", "B"].map(function (title) { return element("th", { scope: "col" }, title); }));
    var made = element("table", { class: "list" }, [element("caption", { class: "hidden" }, "What differs"), element("thead", {}, head), element("tbody", {}, body)]);
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What differs" }, made);
  }

  function differing(a, b) {
    var names = Object.keys(Object.assign({}, a, b));
    return names.filter(function (name) { return (a[name] || "") !== (b[name] || ""); }).map(function (name) { return [name, a[name], b[name]]; });
  }

  function ofBoth(a, b) { return Object.keys(a).length && Object.keys(b).length ? differing(a, b) : []; }

  /** Variables differ in hashes of their values. Those made with different keys cannot be compared. */
  function variables(a, b) {
    return ofBoth(a, b).filter(function (row) {
      return !row[1] || !row[2] || row[1].split(":")[0] === row[2].split(":")[0];
    }).map(function (row) { return ["variable " + row[0], row[1] ? row[2] ? "one value" : "set" : "not set", row[2] ? row[1] ? "another value" : "set" : "not set"]; });
  }

  function definitions(both) {
    var changed = both.filter(function (one) { return one.a.definition !== one.b.definition && one.a.definition && one.b.definition; });
    return changed.length ? [["definition of " + named(changed), "", "changed"]] : [];
  }

  /** Parameters that differ, once for all entries in which they differ in the same way. */
  function parameters(both) {
    var found = {};
    both.forEach(function (one) {
      ofBoth(one.a.parameters, one.b.parameters).forEach(function (row) {
        var key = JSON.stringify(row);
        found[key] = (found[key] || []).concat(one);
      });
    });
    return Object.keys(found).map(function (key) {
      var row = JSON.parse(key);
      return ["parameter " + row[0] + " of " + named(found[key]), row[1], row[2]];
    });
  }

  function named(some) {
    var names = some.slice(0, MOST_NAMES).map(function (one) { return one.entry.name; }), more = some.length - names.length;
    return names.join(", ") + (more > 0 ? " and " + more + " more" : "");
  }

  bench.load("index", start);
})();
