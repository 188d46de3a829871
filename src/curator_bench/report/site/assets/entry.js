// The page of an entry: a chart per metric, drawn when it comes into view; what a run was; and from which to compare.
(function () {
  "use strict";
  var words = bench.words, element = bench.element, slug = document.body.dataset.entry;
  var controls = { machine: document.getElementById("machine"), range: document.getElementById("range"), along: document.getElementById("along") };
  var cards = Array.from(document.querySelectorAll(".chart")), charts = new Map(), runs, compareFrom = null;
  if (!cards.length) return;

  function start(found) {
    runs = found;
    var counts = runs.machines.map(function () { return 0; });
    runs.machine.forEach(function (machine) { counts[machine] += 1; });
    controls.machine.append.apply(controls.machine, runs.machines.map(function (machine, place) {
      return element("option", { value: machine }, (machine || "not named") + " (" + counts[place] + " runs)");
    }));
    controls.machine.value = runs.machines[runs.machine[runs.machine.length - 1]];
    document.getElementById("controls").hidden = false;
    Object.keys(controls).forEach(function (name) {
      controls[name].addEventListener("change", function () {
        var place = {};
        place[name] = controls[name].value;
        bench.setPlace(place);
        redrawAll();
      });
    });
    recall();
    var observer = new IntersectionObserver(function (seen) {
      seen.forEach(function (one) { if (one.isIntersecting) { observer.unobserve(one.target); draw(one.target); } });
    }, { rootMargin: "400px" });
    draw(cards[0]);
    cards.slice(1).forEach(function (card) { observer.observe(card); });
    go();
    window.addEventListener("hashchange", function () { if (recall()) redrawAll(); go(); });
    document.addEventListener("bench-theme", function () { charts.forEach(function (one) { one.drawn.redraw(); }); });
  }

  /** Puts the controls as the address says; says whether that changed anything. */
  function recall() {
    var place = bench.place(), changed = false;
    var run = place.get("run"), at = run ? runs.uid.indexOf(run) : -1;
    var wanted = { machine: place.get("machine"), range: place.get("range"), along: place.get("along") };
    if (at >= 0) {
      wanted.machine = runs.machines[runs.machine[at]];
      if (!wanted.range && chosen(wanted.machine, controls.range.value).indexOf(at) < 0) wanted.range = "all";
    }
    Object.keys(wanted).forEach(function (name) {
      var options = Array.from(controls[name].options).map(function (option) { return option.value; });
      if (wanted[name] != null && wanted[name] !== controls[name].value && options.includes(wanted[name])) { controls[name].value = wanted[name]; changed = true; }
    });
    return changed;
  }

  /** To the chart and the run that the address names. */
  function go() {
    var place = bench.place(), metric = place.get("metric"), run = place.get("run");
    if (!metric && !run) return;
    var card = cards.find(function (one) { return one.dataset.metric === metric; }) || cards[0];
    card.scrollIntoView({ block: "start" });
    draw(card, function (one) {
      var at = one.shown.rows.indexOf(runs.uid.indexOf(run));
      if (at >= 0) one.drawn.choose(at);
    });
  }

  /** The runs of a machine that are shown, by their place among all. */
  function chosen(machine, range) {
    var wanted = runs.machines.indexOf(machine), rows = [];
    runs.machine.forEach(function (one, place) { if (one === wanted) rows.push(place); });
    return range === "all" ? rows : rows.slice(-Number(range));
  }

  function shownOf(metric) {
    var rows = chosen(controls.machine.value, controls.range.value), newest = runs.definition[rows[rows.length - 1]];
    var isTime = controls.along.value === "time";
    var shown = { metric: metric.name, rows: rows, isTime: isTime, current: [], older: [], failed: [], broken: [], definitions: [], ranges: [], steps: [], levels: [], held: null };
    shown.x = rows.map(function (row, place) { return isTime ? runs.time[row] : place + 1; });
    rows.forEach(function (row, place) {
      var value = metric.values[row], isNewest = runs.definition[row] === newest, verdict = runs.verdicts[runs.verdict[row]];
      shown.current.push(isNewest ? value : null);
      shown.older.push(isNewest ? null : value);
      shown.failed.push(verdict === "failed" ? value : null);
      if (value == null && !["passed", "skipped", "running"].includes(verdict)) shown.broken.push(place);
      if (place && runs.definition[row] !== runs.definition[rows[place - 1]]) shown.definitions.push(place);
      if (value != null && metric.min && metric.min[row] != null && metric.max[row] != null) shown.ranges.push({ at: place, low: metric.min[row], high: metric.max[row] });
    });
    function placeOf(time) { return rows.findIndex(function (row) { return runs.time[row] >= time - 0.0015; }); }
    metric.steps.forEach(function (step) {
      var at = step.machine === controls.machine.value ? placeOf(step.time) : -1;
      if (at > 0) shown.steps.push(Object.assign({ at: at }, step));
    });
    shown.judged = metric.judged[controls.machine.value] || null;
    (shown.judged ? shown.judged.levels : []).forEach(function (level) {
      var to = placeOf(level[1]);
      if (to > 0) shown.levels.push({ from: Math.max(placeOf(level[0]), 0), to: to, middle: level[2], noise: level[3] });
    });
    return shown;
  }

  function draw(card, done) {
    if (charts.has(card)) return done && done(charts.get(card));
    bench.load("entries/" + slug + "." + card.dataset.place, function (metric) {
      if (!charts.has(card)) charts.set(card, drawn(card, metric));
      if (done) done(charts.get(card));
    });
  }

  function drawn(card, metric) {
    var plot = card.querySelector(".plot"), shown = shownOf(metric);
    var tip = element("div", { class: "tip", role: "status", hidden: "" }), held = element("div", { class: "held", "aria-live": "polite" });
    var table = element("button", { type: "button", class: "more", "aria-expanded": "false" }, "Values as a table");
    var summary = element("p", { class: "summary" }, summaryOf(metric, shown));
    Array.from(card.children).slice(2).forEach(function (old) { old.remove(); });
    card.append(summary, held, table);
    Object.entries({ tabindex: "0", role: "application", "aria-label": "Chart of " + metric.name + ". " + summary.textContent + " Arrow keys go from run to run." })
      .forEach(function (pair) { plot.setAttribute(pair[0], pair[1]); });
    plot.replaceChildren();
    var made = bench.chart(plot, shown, function (place, left, width) { tell(tip, metric, shown, place, left, width); }, function (place) { hold(held, metric, shown, place); });
    plot.append(tip);
    table.addEventListener("click", function () { toggleTable(card, table, metric, shown); });
    return { drawn: made, shown: shown, metric: metric };
  }

  function redrawAll() {
    charts.forEach(function (one, card) {
      one.drawn.destroy();
      charts.set(card, drawn(card, one.metric));
    });
  }

  function summaryOf(metric, shown) {
    var values = shown.rows.map(function (row) { return metric.values[row]; }).filter(function (value) { return value != null; });
    if (!values.length) return "None of these runs has measured it.";
    var steps = shown.steps.map(function (step) { return step.kind + " of " + step.change + (step.state ? " (" + step.state + ")" : "") + " since " + words.moment(step.time) + (step.first ? ", commit " + step.first.slice(0, 10) : ""); });
    var text = values.length + " runs, median " + words.value(words.median(values), metric.name) + ", latest " + words.value(values[values.length - 1], metric.name) + ". ";
    if (steps.length) text += "Here: " + steps.join("; ") + ". ";
    if (!shown.judged) return text;
    var judged = shown.judged, isOpen = ["inconclusive", "no history", "not comparable"].includes(judged.says);
    var why = [isOpen ? judged.reason : "", judged.decides, judged.sees].filter(Boolean);
    return text + "Newest runs: " + judged.says + (why.length ? " (" + why.join("; ") + ")" : "") + ".";
  }

  function factsOf(metric, shown, place) {
    var row = shown.rows[place], session = runs.sessions[runs.session[row]];
    return { row: row, session: session, verdict: runs.verdicts[runs.verdict[row]], value: words.value(metric.values[row], metric.name), why: runs.why[row],
      step: shown.steps.find(function (step) { return step.at === place; }), definition: runs.definitions[runs.definition[row]] };
  }

  function tell(tip, metric, shown, place, left, width) {
    tip.hidden = place == null;
    if (place == null) return;
    var facts = factsOf(metric, shown, place);
    var lines = [element("strong", {}, facts.value), " " + (facts.verdict === "passed" ? "" : facts.verdict), words.moment(runs.time[facts.row]) + " UTC", facts.session[1]];
    if (facts.session[2]) lines.push("commit " + facts.session[2].slice(0, 10) + (facts.session[3] ? " on " + facts.session[3] : ""));
    if (facts.session[4]) lines.push(facts.session[4]);
    if (facts.step) lines.push(facts.step.kind + ": " + facts.step.change);
    if (facts.why) lines.push(facts.why);
    tip.replaceChildren(element("div", {}, lines.slice(0, 2)));
    lines.slice(2).forEach(function (line) { tip.append(element("div", {}, line)); });
    var onLeft = left > width / 2;
    tip.style.left = onLeft ? "auto" : left + 14 + "px";
    tip.style.right = onLeft ? width - left + 14 + "px" : "auto";
    tip.style.top = "14px";
  }

  function hold(held, metric, shown, place) {
    var facts = factsOf(metric, shown, place), session = facts.session;
    var items = [element("strong", {}, facts.value), facts.verdict, words.moment(runs.time[facts.row]) + " UTC",
      session[0] ? element("a", { href: bench.top + "sessions/" + session[0] + ".html#run-" + runs.uid[facts.row] }, session[1]) : session[1]];
    if (session[2]) items.push("commit " + session[2].slice(0, 10) + (session[3] ? " on " + session[3] : ""));
    if (session[4]) items.push(session[4]);
    if (facts.why) items.push(facts.why);
    var log = runs.log[facts.row];
    if (log && bench.isHere(log)) items.push(element("a", { href: /^https?:/.test(log) ? log : bench.top + log }, "log"));
    if (session[0]) items = items.concat(comparing(held, metric, shown, place, session));
    held.replaceChildren.apply(held, items.map(function (item) { return element("span", {}, item); }));
    bench.setPlace({ metric: metric.name, run: runs.uid[facts.row] });
  }

  function comparing(held, metric, shown, place, session) {
    var items = [], button = element("button", { type: "button" }, "Compare from here");
    button.addEventListener("click", function () { compareFrom = session; hold(held, metric, shown, place); held.querySelector("button").focus(); });
    if (compareFrom && compareFrom[0] !== session[0])
      items.push(element("a", { href: compareLink(compareFrom, session) }, "what differs from " + compareFrom[1]));
    else if (compareFrom) items.push("now hold another run to compare with this one");
    var before = place ? runs.sessions[runs.session[shown.rows[place - 1]]] : null;
    if (before && before[0] && before[0] !== session[0]) items.push(element("a", { href: compareLink(before, session) }, "what differs from the run before"));
    return items.concat(button);
  }

  function compareLink(a, b) { return bench.top + "compare.html#a=" + encodeURIComponent(a[0]) + "&b=" + encodeURIComponent(b[0]); }

  function toggleTable(card, button, metric, shown) {
    var old = card.querySelector(".values");
    button.setAttribute("aria-expanded", String(!old));
    if (old) return old.remove();
    var heads = ["Started (UTC)", "Session", "Commit", "Verdict", metric.name];
    var places = shown.rows.map(function (row, place) { return place; }).reverse().slice(0, 1000);
    var rows = places.map(function (place) {
      var facts = factsOf(metric, shown, place);
      return element("tr", {}, [words.moment(runs.time[facts.row]), facts.session[1], (facts.session[2] || "–").slice(0, 10), facts.verdict, facts.value]
        .map(function (text, column) { return element("td", { class: column === 4 ? "num" : null }, text); }));
    });
    var head = element("tr", {}, heads.map(function (title) { return element("th", { scope: "col" }, title); }));
    var made = element("table", { class: "list" }, [element("caption", { class: "hidden" }, "Values of " + metric.name), element("thead", {}, head), element("tbody", {}, rows)]);
    card.append(element("div", { class: "values", tabindex: "0", role: "region", "aria-label": "Values of " + metric.name }, made));
  }

  bench.load("entries/" + slug, start);
})();
