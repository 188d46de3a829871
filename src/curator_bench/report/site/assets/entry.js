// The page of an entry: a chart per metric, drawn when it comes into view; lines beside it that a click adds; what a run
// was; and from which to compare. All that is chosen is in the address.
(function () {
  "use strict";
  var words = bench.words, element = bench.element, slug = document.body.dataset.entry;
  var controls = {};
  ["machine", "branch", "range", "along"].forEach(function (name) { controls[name] = document.getElementById(name); });
  var chips = document.getElementById("lines"), cards = Array.from(document.querySelectorAll(".chart"));
  var charts = new Map(), wanted = new Set(), store, lines = [], judged = {}, sessions = {}, commits = {}, compareFrom = null, turn = 0;
  var COLOURS = ["line-1", "line-2", "line-3", "line-4", "line-5", "line-6"];
  if (!cards.length) return;

  function start(found) {
    store = found;
    bench.fill(controls.machine, store.head.machines.map(function (one) { return [one[0], one[0] || "not named"]; }));
    document.getElementById("controls").hidden = false;
    Object.keys(controls).forEach(function (name) {
      controls[name].addEventListener("change", function () {
        var place = { x: null };
        place[name] = controls[name].value;
        bench.setPlace(place);
        refresh();
      });
    });
    document.getElementById("whole").addEventListener("click", function () { zoom(null, null); });
    bench.setUpCopying(document.getElementById("copy"));
    var observer = new IntersectionObserver(function (seen) {
      seen.forEach(function (one) { if (one.isIntersecting) { observer.unobserve(one.target); want(one.target); } });
    }, { rootMargin: "400px" });
    wanted.add(cards[0]);
    cards.slice(1).forEach(function (card) { observer.observe(card); });
    bench.load("commits", function (known) { commits = known; }, function () {});
    bench.load("index", function (index) {
      index.sessions.forEach(function (session) { sessions[session[0]] = true; });
      offer(index);
      recall();
      refresh(go);
    });
    window.addEventListener("hashchange", function () { if (recall()) refresh(go); else { applyZoom(); go(); } });
    document.addEventListener("bench-theme", function () { charts.forEach(function (one) { one.drawn.redraw(); }); });
  }

  /** Offers lines to add: the other values of the entry's axes, and its other machines. */
  function offer(index) {
    var own = index.entries.find(function (entry) { return entry.slug === slug; });
    var siblings = index.entries.filter(function (entry) { return own && entry.path === own.path && entry.original === own.original && entry.slug !== slug; });
    siblings.forEach(function (entry) { addChip(entry.name.slice(own.original.length) || entry.name, entry.slug, "", ""); });
    if (store.head.machines.length > 1)
      store.head.machines.forEach(function (one) { addChip("on " + (one[0] || "no named machine"), slug, one[0], ""); });
  }

  function addChip(label, of, machine, branch) {
    var key = [of, machine, branch].map(encodeURIComponent).join("~");
    if (chips.querySelector('[value="' + CSS.escape(key) + '"]')) return;
    var box = element("input", { type: "checkbox", value: key });
    box.addEventListener("change", function () {
      var keys = Array.from(chips.querySelectorAll(":checked")).map(function (one) { return one.value; });
      bench.setPlace({ lines: keys.join(",") || null });
      refresh();
    });
    chips.append(element("label", { class: "chip" }, [box, " " + label]));
    document.getElementById("beside").hidden = false;
  }

  /** Puts the controls as the address says; says whether that changed anything. */
  function recall() {
    var place = bench.place(), changed = false, keys = (place.get("lines") || "").split(",").filter(Boolean);
    var newest = store.head.machines[store.head.machines.length - 1];
    var asked = { machine: place.get("machine"), branch: place.get("branch"), range: place.get("range"), along: place.get("along") };
    if (asked.machine == null && !place.has("run")) asked.machine = controls.machine.dataset.newest == null ? newest && newest[0] : controls.machine.dataset.newest;
    Object.keys(asked).forEach(function (name) {
      if (asked[name] == null || asked[name] === controls[name].value) return;
      var known = Array.from(controls[name].options).some(function (option) { return option.value === asked[name]; });
      if (!known && name === "branch") controls[name].append(element("option", { value: asked[name] }, asked[name]));
      if (known || name === "branch") { controls[name].value = asked[name]; changed = true; }
    });
    keys.filter(function (key) { return key.split("~")[2]; }).forEach(function (key) {
      var parts = key.split("~").map(decodeURIComponent);
      addChip("branch " + parts[2], parts[0], parts[1], parts[2]);
    });
    chips.querySelectorAll("input").forEach(function (box) {
      if (box.checked !== keys.includes(box.value)) { box.checked = !box.checked; changed = true; }
    });
    return changed;
  }

  /** Loads what is chosen, and draws all charts again that are wanted. */
  function refresh(done) {
    var mine = ++turn, run = bench.place().get("run");
    var main = { slug: slug, machine: controls.machine.value, branch: controls.branch.value, label: "this one", colour: "point" };
    var others = Array.from(chips.querySelectorAll(":checked")).map(function (box, place) {
      var parts = box.value.split("~").map(decodeURIComponent);
      return { slug: parts[0], machine: parts[1], branch: parts[2], label: box.parentNode.textContent.trim(), colour: COLOURS[place % COLOURS.length] };
    });
    var all = [main].concat(others), left = all.length + 1;
    function arrived() {
      left -= 1;
      if (left || mine !== turn) return;
      lines = all.filter(function (line) { return line.runs; });
      offerBranches();
      charts.forEach(function (one) { one.drawn.destroy(); });
      charts.clear();
      wanted.forEach(draw);
      if (done) done();
    }
    all.forEach(function (line) { loadLine(line, line === main ? run : null, arrived); });
    bench.loadJudged(store, main.machine, function (found) { judged = found; arrived(); });
  }

  function loadLine(line, run, done) {
    bench.entry(line.slug, function (found) {
      var machines = found.head.machines.map(function (one) { return one[0]; });
      if (!machines.includes(line.machine)) line.machine = machines.includes(controls.machine.value) ? controls.machine.value : machines[machines.length - 1];
      var most = Number(controls.range.value) || 0;
      function isEnough(runs) {
        if (run && runs.uid.indexOf(run) < 0) return false;
        return most > 0 && bench.rowsOf(runs, line, 0).length >= most;
      }
      bench.loadRuns(found, isEnough, function (runs) {
        var at = run ? runs.uid.indexOf(run) : -1;
        if (at >= 0 && bench.place().get("machine") == null) { line.machine = controls.machine.value = runs.machine[at]; }
        line.runs = runs;
        line.rows = bench.rowsOf(runs, line, most);
        if (at >= 0 && line.rows.indexOf(at) < 0) line.rows = bench.rowsOf(runs, line, 0);
        done();
      });
    }, done);
  }

  function legendOf() {
    return element("ul", { class: "legend", "aria-label": "Lines" }, lines.map(function (line) {
      return element("li", {}, [element("span", { class: "swatch " + line.colour, "aria-hidden": "true" }), " " + line.label]);
    }));
  }

  function offerBranches() {
    var found = {}, runs = lines[0].runs, chosen = controls.branch.value;
    runs.sessions.forEach(function (session) { if (session[3]) found[session[3]] = true; });
    var names = Object.keys(found).sort();
    if (names.length < 2 && !chosen) return;
    bench.fill(controls.branch, [["", "all"]].concat(names.map(function (name) { return [name, name]; })));
    controls.branch.value = chosen;
    controls.branch.parentNode.hidden = false;
    names.forEach(function (name) { addChip("branch " + name, slug, "", name); });
  }

  /** To the chart and the run that the address names. */
  function go() {
    var place = bench.place(), metric = place.get("metric"), run = place.get("run");
    if (!metric && !run) return;
    var card = cards.find(function (one) { return one.dataset.metric === metric; }) || cards[0];
    card.scrollIntoView({ block: "start" });
    want(card);
    var one = charts.get(card), at = one && run ? one.shown.points.findIndex(function (point) { return !point.line && lines[0].runs.uid[point.row] === run; }) : -1;
    if (at >= 0) one.drawn.choose(at);
  }

  function want(card) {
    wanted.add(card);
    if (lines.length) draw(card);
  }

  function draw(card) {
    if (!charts.has(card)) charts.set(card, drawn(card, card.dataset.metric));
  }

  /** The range in view, for all charts of the page; it is in the address. */
  function zoom(from, to) {
    bench.setPlace({ x: from == null ? null : [from, to].map(function (one) { return Number(one.toPrecision(10)); }).join("..") });
    applyZoom();
  }

  function applyZoom() {
    var range = (bench.place().get("x") || "").split("..").map(Number), isRange = range.length === 2 && range[0] < range[1];
    charts.forEach(function (one) { if (isRange) one.drawn.show(range[0], range[1]); else one.drawn.show(); });
    document.getElementById("whole").hidden = !isRange;
  }

  function shownOf(metric) {
    var main = lines[0], runs = main.runs, isTime = controls.along.value === "time" || lines.length > 1, points = [];
    lines.forEach(function (line, number) {
      line.rows.forEach(function (row) {
        if (!number || bench.valueOf(line.runs, metric, row) != null) points.push({ line: number, row: row, time: line.runs.time[row] });
      });
    });
    if (lines.length > 1) points.sort(function (one, other) { return one.time - other.time; });
    var shown = { metric: metric, lines: lines, points: points, isTime: isTime, columns: [[], [], []], broken: [], definitions: [], ranges: [], steps: [], levels: [], held: null };
    lines.slice(1).forEach(function () { shown.columns.push([]); });
    shown.x = points.map(function (point, place) { return isTime ? point.time : place + 1; });
    var newest = main.rows.length ? runs.kind[main.rows[main.rows.length - 1]] : "", before = null;
    points.forEach(function (point, place) {
      var value = bench.valueOf(lines[point.line].runs, metric, point.row);
      shown.columns.forEach(function (column) { column.push(null); });
      if (point.line) { shown.columns[point.line + 2][place] = value; return; }
      var verdict = runs.verdict[point.row];
      shown.columns[runs.kind[point.row] === newest ? 0 : 1][place] = value;
      if (verdict === "failed") shown.columns[2][place] = value;
      if (value == null && !["passed", "skipped", "running"].includes(verdict)) shown.broken.push(place);
      if (before != null && runs.definition[point.row] !== runs.definition[before]) shown.definitions.push(place);
      before = point.row;
      var low = bench.valueOf(runs, metric + "_min", point.row), high = bench.valueOf(runs, metric + "_max", point.row);
      if (value != null && low != null && high != null) shown.ranges.push({ at: place, low: low, high: high });
    });
    function placeOf(time) { return points.findIndex(function (point) { return !point.line && point.time >= time - 0.0015; }); }
    shown.judged = judged[metric] || null;
    (shown.judged ? shown.judged.steps : []).forEach(function (step) {
      var at = placeOf(step.time);
      if (at > 0) shown.steps.push(Object.assign({ at: at }, step));
    });
    (shown.judged ? shown.judged.levels : []).forEach(function (level) {
      var to = placeOf(level[1]);
      if (to > 0) shown.levels.push({ from: Math.max(placeOf(level[0]), 0), to: to, middle: level[2], noise: Math.abs(level[2] * level[3]) });
    });
    return shown;
  }

  function drawn(card, metric) {
    var plot = card.querySelector(".plot"), shown = shownOf(metric);
    var tip = element("div", { class: "tip", role: "status", hidden: "" }), held = element("div", { class: "held", "aria-live": "polite" });
    var table = element("button", { type: "button", class: "more", "aria-expanded": "false" }, "Values as a table");
    var summary = element("p", { class: "summary" }, summaryOf(metric, shown));
    Array.from(card.children).slice(2).forEach(function (old) { old.remove(); });
    card.append.apply(card, (lines.length > 1 ? [legendOf()] : []).concat([summary, held, table]));
    Object.entries({ tabindex: "0", role: "application", "aria-label": "Chart of " + metric + ". " + summary.textContent + " Arrow keys go from run to run." })
      .forEach(function (pair) { plot.setAttribute(pair[0], pair[1]); });
    plot.replaceChildren();
    if (!shown.x.length) return { drawn: { redraw: nothing, show: nothing, destroy: nothing, choose: nothing }, shown: shown };
    var made = bench.chart(plot, shown, function (place, left, width) { tell(tip, metric, shown, place, left, width); }, function (place) { hold(held, metric, shown, place); }, zoom);
    plot.append(tip);
    table.addEventListener("click", function () { toggleTable(card, table, metric, shown); });
    var range = (bench.place().get("x") || "").split("..").map(Number);
    if (range.length === 2 && range[0] < range[1]) { made.show(range[0], range[1]); document.getElementById("whole").hidden = false; }
    return { drawn: made, shown: shown };
  }

  function nothing() {}

  function summaryOf(metric, shown) {
    var values = lines[0].rows.map(function (row) { return bench.valueOf(lines[0].runs, metric, row); }).filter(function (value) { return value != null; });
    if (!values.length) return "None of these runs has measured it.";
    var steps = shown.steps.map(function (step) { return step.kind + " of " + step.change + (step.state ? " (" + step.state + ")" : "") + " since " + words.moment(step.time) + (step.first ? ", commit " + step.first.slice(0, 10) : ""); });
    var text = values.length + " runs, median " + words.value(words.median(values), metric) + ", latest " + words.value(values[values.length - 1], metric) + ". ";
    if (steps.length) text += "Here: " + steps.join("; ") + ". ";
    if (!shown.judged) return text;
    var newest = shown.judged, isOpen = ["inconclusive", "no history", "not comparable"].includes(newest.says);
    var why = [isOpen ? newest.reason : "", newest.decides, newest.sees].filter(Boolean);
    return text + "Newest runs: " + newest.says + (why.length ? " (" + why.join("; ") + ")" : "") + ".";
  }

  function factsOf(metric, shown, place) {
    var point = shown.points[place], line = lines[point.line], runs = line.runs, session = runs.sessions[runs.session[point.row]];
    var commit = session[2], known = commit ? commits[commit] : null;
    return { line: line, row: point.row, runs: runs, session: session, verdict: runs.verdict[point.row], time: words.moment(runs.began[point.row] || runs.time[point.row]),
      moved: runs.began[point.row] ? "stands where its commit stands" : null,
      value: words.value(bench.valueOf(runs, metric, point.row), metric), why: runs.why[point.row], uid: runs.uid[point.row],
      commit: commit ? "commit " + commit.slice(0, 10) + (session[3] ? " on " + session[3] : "") : null,
      subject: known ? known[0] + (known[1] ? " (" + known[1] + ")" : "") : null,
      step: point.line ? null : shown.steps.find(function (step) { return step.at === place; }) };
  }

  function tell(tip, metric, shown, place, left, width) {
    tip.hidden = place == null;
    if (place == null) return;
    var facts = factsOf(metric, shown, place);
    var texts = [facts.time + " UTC", facts.session[1], facts.commit, facts.subject, facts.session[4], facts.moved, facts.step ? facts.step.kind + ": " + facts.step.change : null, facts.why];
    var first = [element("strong", {}, facts.value), " " + (facts.verdict === "passed" ? "" : facts.verdict) + (shown.lines.length > 1 ? " " + facts.line.label : "")];
    tip.replaceChildren(element("div", {}, first));
    texts.filter(Boolean).forEach(function (text) { tip.append(element("div", {}, text)); });
    var onLeft = left > width / 2;
    tip.style.left = onLeft ? "auto" : left + 14 + "px";
    tip.style.right = onLeft ? width - left + 14 + "px" : "auto";
    tip.style.top = "14px";
  }

  function hold(held, metric, shown, place) {
    var facts = factsOf(metric, shown, place), session = facts.session, hasPage = sessions[session[0]], log = facts.runs.log[facts.row];
    var items = [element("strong", {}, facts.value), facts.verdict, facts.time + " UTC",
      hasPage ? element("a", { href: bench.top + "sessions/" + session[0] + ".html#run-" + facts.uid }, session[1]) : session[1],
      facts.commit, facts.subject, facts.moved, session[4], facts.why];
    if (log && bench.isHere(log)) items.push(element("a", { href: /^https?:/.test(log) ? log : bench.top + log }, "log"));
    if (hasPage) items = items.concat(comparing(held, metric, shown, place, session));
    held.replaceChildren.apply(held, items.filter(Boolean).map(function (item) { return element("span", {}, item); }));
    if (facts.line === lines[0]) bench.setPlace({ metric: metric, run: facts.uid });
  }

  function comparing(held, metric, shown, place, session) {
    var items = [], button = element("button", { type: "button" }, "Compare from here");
    button.addEventListener("click", function () { compareFrom = session; hold(held, metric, shown, place); held.querySelector("button").focus(); });
    if (compareFrom && compareFrom[0] !== session[0])
      items.push(element("a", { href: compareLink(compareFrom, session) }, "what differs from " + compareFrom[1]));
    else if (compareFrom) items.push("now hold another run to compare with this one");
    var line = lines[shown.points[place].line], at = line.rows.indexOf(shown.points[place].row);
    var before = at > 0 ? line.runs.sessions[line.runs.session[line.rows[at - 1]]] : null;
    if (before && sessions[before[0]] && before[0] !== session[0]) items.push(element("a", { href: compareLink(before, session) }, "what differs from the run before"));
    return items.concat(button);
  }

  function compareLink(a, b) { return bench.top + "compare.html#a=" + encodeURIComponent(a[0]) + "&b=" + encodeURIComponent(b[0]); }

  function toggleTable(card, button, metric, shown) {
    var old = card.querySelector(".values"), isMany = lines.length > 1;
    button.setAttribute("aria-expanded", String(!old));
    if (old) return old.remove();
    var heads = ["Started (UTC)", "Session", "Commit", "Verdict"].concat(isMany ? ["Line"] : [], metric);
    var places = shown.points.map(function (point, place) { return place; }).reverse().slice(0, 1000);
    var rows = places.map(function (place) {
      var facts = factsOf(metric, shown, place);
      var texts = [facts.time, facts.session[1], (facts.session[2] || "–").slice(0, 10), facts.verdict].concat(isMany ? [facts.line.label] : [], facts.value);
      return element("tr", {}, texts.map(function (text, column) { return element("td", { class: column === texts.length - 1 ? "num" : null }, text); }));
    });
    var head = element("tr", {}, heads.map(function (title) { return element("th", { scope: "col" }, title); }));
    var made = element("table", { class: "list" }, [element("caption", { class: "hidden" }, "Values of " + metric), element("thead", {}, head), element("tbody", {}, rows)]);
    card.append(element("div", { class: "values", tabindex: "0", role: "region", "aria-label": "Values of " + metric }, made));
  }

  bench.entry(slug, start);
})();
