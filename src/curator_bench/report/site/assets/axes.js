// One metric of an entry by two of its axes: the values of a session, and how they differ from those of another.
(function () {
  "use strict";
  var words = bench.words, element = bench.element, pairs = bench.pairs, controls = {};
  ["entry", "metric", "rows", "columns", "b", "a", "machine"].forEach(function (name) { controls[name] = document.getElementById(name); });
  var fixed = document.getElementById("fixed"), said = document.getElementById("said"), place = document.getElementById("grid");
  var index, families, byEntry = {}, turn = 0;
  var NONE = "none", LOOKED_AT = 30, SHADES = [0.1, 0.25], ABSENT = -1;

  function start(found, known) {
    index = found;
    families = known;
    index.entries.forEach(function (entry) { byEntry[entry.slug] = entry; });
    var paths = new Set(families.map(function (family) { return family.path; }));
    bench.fill(controls.entry, families.map(function (family) { return [family.slug, family.name + (paths.size > 1 ? " (" + family.path + ")" : "")]; }));
    bench.fill(controls.b, pairs.options(index));
    bench.fill(controls.a, [[NONE, "no other session"]].concat(pairs.options(index)));
    Object.keys(controls).forEach(function (name) { controls[name].addEventListener("change", function () { changed(name); }); });
    document.getElementById("swap").addEventListener("click", function () {
      bench.setPlace({ rows: controls.columns.value, columns: controls.rows.value });
      show();
    });
    bench.setUpCopying(document.getElementById("copy"));
    window.addEventListener("hashchange", show);
    show();
  }

  /** Puts a choice into the address. Another entry has other axes, and other sessions that ran it. */
  function changed(name) {
    var choice = {};
    if (name === "entry") {
      Array.from(bench.place().keys()).forEach(function (key) { if (key !== "metric") choice[key] = null; });
    }
    if (name === "b") choice.a = null;
    choice[name] = controls[name].value || null;
    if (name === "rows" || name === "columns") {
      var other = name === "rows" ? "columns" : "rows";
      choice[other] = controls[other].value === choice[name] ? bench.place().get(name) || otherAxis(choice[name]) : controls[other].value;
    }
    bench.setPlace(choice);
    show();
  }

  function otherAxis(name) { return (chosenFamily().axes.find(function (axis) { return axis[0] !== name; }) || [""])[0]; }

  function chosenFamily() {
    var asked = bench.place().get("entry");
    return families.find(function (family) { return family.slug === asked; }) || families[0];
  }

  function show() {
    var mine = ++turn, family = chosenFamily(), asked = bench.place();
    if (!family) { said.textContent = "No entry with axes is recorded."; return; }
    document.getElementById("controls").hidden = false;
    controls.entry.value = family.slug;
    choose(controls.metric, metricsOf(family), asked.get("metric"));
    chooseAxes(family, asked);
    controls.b.value = known(asked.get("b")) ? asked.get("b") : known(family.latest) ? family.latest : (index.sessions[0] || [""])[0];
    if (asked.has("b") && !known(asked.get("b"))) return missing();
    if (asked.has("a") && asked.get("a") !== NONE && !known(asked.get("a"))) return missing();
    bench.load("sessions/" + controls.b.value, function (b) {
      against(family, b, asked.get("a"), function (a) {
        if (mine !== turn) return;
        controls.a.value = a || NONE;
        if (!a) return withDirection(family, b, null, null, mine);
        pairs.load(index, a, b.slug, function (first, second, judged) { withDirection(family, second, first, judged, mine); }, missing);
      });
    }, missing);
  }

  function known(slug) { return index.sessions.some(function (session) { return session[0] === slug; }); }

  function missing() {
    said.textContent = "One of these sessions is not in this site.";
    place.replaceChildren();
  }

  function choose(select, names, asked) {
    bench.fill(select, names.map(function (name) { return [name, name]; }));
    select.value = names.includes(asked) ? asked : names[0] || "";
  }

  function metricsOf(family) {
    var names = [];
    Object.keys(family.members).forEach(function (slug) {
      (byEntry[slug] ? byEntry[slug].metrics : []).forEach(function (name) { if (!names.includes(name)) names.push(name); });
    });
    return names;
  }

  /** Rows are the axis with the most values, columns the next; a single axis makes a row. Selectors fix the others. */
  function chooseAxes(family, asked) {
    var names = family.axes.map(function (axis) { return axis[0]; }), single = names.length < 2;
    var longest = family.axes.slice().sort(function (one, other) { return other[1].length - one[1].length; }).map(function (axis) { return axis[0]; });
    ["rows", "columns"].forEach(function (name) { controls[name].parentNode.hidden = single; });
    document.getElementById("swap").hidden = single;
    if (single) { choose(controls.columns, names, null); bench.fill(controls.rows, [["", ""]]); fixed.hidden = true; return; }
    choose(controls.rows, names, asked.get("rows") || longest.find(function (name) { return name !== asked.get("columns"); }));
    var others = names.filter(function (name) { return name !== controls.rows.value; });
    choose(controls.columns, names, others.includes(asked.get("columns")) ? asked.get("columns") : longest.find(function (name) { return others.includes(name); }));
    var rest = names.filter(function (name) { return name !== controls.rows.value && name !== controls.columns.value; });
    fixed.hidden = !rest.length;
    fixed.replaceChildren.apply(fixed, [element("legend", {}, "At")].concat(rest.map(function (name) { return selectorOf(family, name, asked); })));
  }

  function selectorOf(family, name, asked) {
    var at = numberOf(family, name), select = element("select", { "data-axis": name });
    var places = placesOf(family, at), wanted = asked.get("at-" + name);
    bench.fill(select, places.map(function (number) { return [number, labelOf(family, at, number)]; }));
    var chosen = places.find(function (number) { return labelOf(family, at, number) === wanted; });
    select.value = chosen == null ? places[0] : chosen;
    select.addEventListener("change", function () {
      var choice = {};
      choice["at-" + name] = labelOf(family, at, Number(select.value));
      bench.setPlace(choice);
      show();
      fixed.querySelector('[data-axis="' + CSS.escape(name) + '"]').focus();
    });
    return element("label", {}, [name + " ", select]);
  }

  function numberOf(family, name) { return family.axes.findIndex(function (axis) { return axis[0] === name; }); }

  /** The places of an axis's values that combinations have; the last one stands for those without the axis. */
  function placesOf(family, at) {
    if (at < 0) return [null];
    var places = family.axes[at][1].map(function (value, number) { return number; });
    var lack = Object.values(family.members).some(function (values) { return values[at] === ABSENT; });
    return lack ? places.concat(ABSENT) : places;
  }

  function labelOf(family, at, number) { return number === ABSENT ? "without" : family.axes[at][1][number]; }

  /** Finds the session to compare with: the one that was asked for, else the last one before that ran any of these. */
  function against(family, b, asked, done) {
    if (asked != null) return done(asked === NONE ? null : asked);
    var at = index.sessions.findIndex(function (session) { return session[0] === b.slug; }), last = at + LOOKED_AT;
    (function look(number) {
      if (number >= index.sessions.length || number > last) return done(null);
      var slug = index.sessions[number][0];
      bench.load("sessions/" + slug, function (session) {
        if (Object.keys(family.members).some(function (member) { return session.runs[member]; })) return done(slug);
        look(number + 1);
      }, function () { look(number + 1); });
    })(at + 1);
  }

  /** Looks up which direction of the metric is better, which the entries know. */
  function withDirection(family, b, a, judged, mine) {
    var metric = controls.metric.value;
    var one = Object.keys(family.members).find(function (slug) { return byEntry[slug] && byEntry[slug].metrics.includes(metric); });
    function done(head) {
      if (mine !== turn) return;
      var row = head && head.metrics.find(function (facts) { return facts[0] === metric; });
      render(family, metric, row ? row[1] : null, b, a, judged);
    }
    if (!one) return done(null);
    bench.load("entries/" + one, done, function () { done(null); });
  }

  /** Offers the machines of a session that ran the combinations on several. */
  function chooseMachine(family, b) {
    var names = [], asked = bench.place().get("machine");
    Object.keys(family.members).forEach(function (slug) {
      pairs.machinesOf(b, slug).forEach(function (machine) { if (!names.includes(machine)) names.push(machine); });
    });
    names.sort();
    bench.fill(controls.machine, [["", "the last run on any"]].concat(names.filter(Boolean).map(function (name) { return [name, name]; })));
    controls.machine.value = names.includes(asked) ? asked : "";
    controls.machine.parentNode.hidden = names.length < 2;
  }

  function render(family, metric, better, b, a, judged) {
    chooseMachine(family, b);
    var rowAt = numberOf(family, controls.rows.value), columnAt = numberOf(family, controls.columns.value), wanted = {};
    fixed.querySelectorAll("select").forEach(function (select) { if (!fixed.hidden) wanted[numberOf(family, select.dataset.axis)] = Number(select.value); });
    var rows = placesOf(family, rowAt), columns = placesOf(family, columnAt), counts = {};
    var cells = rows.map(function (row) {
      return columns.map(function (column) { return cellOf(family, metric, Object.assign({}, wanted, at(rowAt, row), at(columnAt, column)), b, a, judged, counts); });
    });
    if (!a) shade(cells);
    place.replaceChildren(table(family, metric, rowAt, columnAt, rows, columns, cells));
    var direction = better ? better + " is better" : "no direction";
    var parts = [metric + " (" + direction + ") in " + b.name + (a ? " against " + a.name : "") + (controls.machine.value ? " on " + controls.machine.value : "")];
    var changes = pairs.WORDS.filter(function (word) { return counts[word]; }).map(function (word) { return counts[word] + " " + word; });
    if (changes.length) parts.push(changes.join(", "));
    said.textContent = parts.join(": ") + "." + (a && !judged ? " " + pairs.notJudged(a, b) : "");
    document.getElementById("shades").hidden = !!a;
    document.getElementById("colours").hidden = !a;
    document.getElementById("terminal").textContent = "curator-bench pivot " + b.name + " --rows " + (controls.rows.value || controls.columns.value) +
      (controls.rows.value ? " --columns " + controls.columns.value : "") + " --metric " + metric;
  }

  function at(axis, number) {
    var values = {};
    if (axis >= 0) values[axis] = number;
    return values;
  }

  function cellOf(family, metric, wanted, b, a, judged, counts) {
    var slug = Object.keys(family.members).find(function (member) {
      return Object.keys(wanted).every(function (axis) { return family.members[member][axis] === wanted[axis]; });
    });
    if (!slug) return { classes: "none", parts: [hiddenText("no such combination")] };
    var machine = controls.machine.value || null, run = pairs.runOf(b, slug, machine), link = bench.top + "entries/" + slug + ".html#metric=" + encodeURIComponent(metric);
    if (!run) return { classes: "none", parts: ["–", hiddenText("not run")] };
    var value = run.values[metric];
    if (value == null) return { classes: "", parts: [element("a", { href: link }, run.verdict === "passed" ? "no value" : run.verdict)] };
    var shown = element("a", { href: link }, words.value(value, metric)), failed = ["passed", "failed"].includes(run.verdict) ? "" : " " + run.verdict;
    var cell = { classes: "", parts: [shown, failed], value: value };
    if (a) compare(cell, pairs.change(slug, metric, pairs.runOf(a, slug, run.machine) || pairs.runOf(a, slug, machine), run, judged), counts);
    return cell;
  }

  /** Adds how the cell changed: with its word and colour where it is judged, else the plain change. */
  function compare(cell, found, counts) {
    if (!found) { cell.parts.push(element("small", {}, "new here")); return; }
    if (found.says) counts[found.says] = (counts[found.says] || 0) + 1;
    var is = { regression: "worse", improvement: "better" }[found.says];
    if (is) cell.classes = is + "-" + (1 + SHADES.filter(function (limit) { return Math.abs(found.change) >= limit; }).length);
    if (found.says === "inconclusive") cell.classes = "unsure";
    var change = found.change == null ? "" : words.change(found.change);
    cell.title = found.reason || null;
    cell.parts.push(element("small", {}, [change, found.says].filter(Boolean).join(" ")));
  }

  /** Shades the values of a session from the least to the greatest. */
  function shade(cells) {
    var all = [].concat.apply([], cells).filter(function (cell) { return cell.value != null; });
    var values = all.map(function (cell) { return cell.value; }), low = Math.min.apply(null, values), high = Math.max.apply(null, values);
    if (high > low) all.forEach(function (cell) { cell.classes = "shade-" + Math.round(5 * (cell.value - low) / (high - low)); });
  }

  function table(family, metric, rowAt, columnAt, rows, columns, cells) {
    var corner = rowAt < 0 ? family.axes[columnAt][0] : family.axes[rowAt][0] + " ↓ " + family.axes[columnAt][0] + " →";
    var head = element("tr", {}, [element("th", { scope: "col" }, corner)].concat(columns.map(function (column) { return element("th", { scope: "col", class: "num" }, labelOf(family, columnAt, column)); })));
    var body = rows.map(function (row, number) {
      return element("tr", {}, [element("th", { scope: "row" }, rowAt < 0 ? metric : labelOf(family, rowAt, row))].concat(cells[number].map(function (cell) {
        return element("td", { class: "num " + cell.classes, title: cell.title }, cell.parts);
      })));
    });
    var name = metric + " of " + family.name + " by its axes";
    var made = element("table", { class: "list grid" }, [element("caption", { class: "hidden" }, name), element("thead", {}, head), element("tbody", {}, body)]);
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, made);
  }

  function hiddenText(text) { return element("span", { class: "hidden" }, text); }

  bench.load("index", function (found) { bench.load("axes", function (known) { start(found, known); }); });
})();
