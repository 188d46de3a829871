// The profiles of an entry as flame graphs: of one run, or the difference of two. Red is where time was added.
(function () {
  "use strict";
  var words = bench.words, element = bench.element;
  var chosen = { run: document.getElementById("run"), before: document.getElementById("before"), profiler: document.getElementById("profiler"), by: document.getElementById("by") };
  var only = document.getElementById("only"), said = document.getElementById("said"), detail = document.getElementById("detail"), place = document.getElementById("flame");
  var slug = document.body.dataset.entry, index, graph, shown = 0;
  var WAITING = "[waiting]", MOST_ROWS = 40, ROW = 20, HINT = detail.textContent;

  function start(found) {
    index = found;
    bench.fill(chosen.run, index.runs.map(function (run) { return [run.uid, run.text]; }));
    bench.fill(chosen.before, [["", "nothing: this run alone"]].concat(index.runs.map(function (run) { return [run.uid, run.text]; })));
    bench.fill(chosen.profiler, index.profilers.map(function (name) { return [name, name]; }));
    chosen.profiler.parentElement.hidden = index.profilers.length < 2;
    Object.keys(chosen).forEach(function (name) { chosen[name].addEventListener("change", function () { remember(); show(); }); });
    only.addEventListener("input", function () { remember(); search(); });
    document.getElementById("whole").addEventListener("click", function () { if (graph) graph.chart.resetZoom(); });
    window.addEventListener("hashchange", function () { recall(); show(); });
    window.addEventListener("resize", function () { if (graph && graph.width !== place.clientWidth) draw(graph.tree); });
    recall();
    show();
  }

  function has(select, value) { return Array.from(select.options).some(function (option) { return option.value === value; }); }

  function recall() {
    var known = bench.place(), runs = index.runs;
    chosen.run.value = has(chosen.run, known.get("run")) ? known.get("run") : runs[0].uid;
    chosen.before.value = has(chosen.before, known.get("before")) ? known.get("before") : "";
    if (has(chosen.profiler, known.get("profiler"))) chosen.profiler.value = known.get("profiler");
    chosen.by.value = known.get("by") === "self" ? "self" : "total";
    only.value = known.get("only") || "";
  }

  function remember() {
    bench.setPlace({ run: chosen.run.value, before: chosen.before.value || null, profiler: chosen.profiler.value, by: chosen.by.value, only: only.value || null });
  }

  function show() {
    var turn = ++shown, after, before, wanted = chosen.before.value ? 2 : 1;
    function missing() {
      if (turn !== shown) return;
      said.textContent = "This run has no profile of " + chosen.profiler.value + ".";
      clear();
    }
    function loaded() { if (!--wanted && turn === shown) render(before, after); }
    load(chosen.run.value, function (found) { after = found; loaded(); }, missing);
    if (chosen.before.value) load(chosen.before.value, function (found) { before = found; loaded(); }, missing);
  }

  function load(uid, done, missing) {
    var run = index.runs.find(function (one) { return one.uid === uid; });
    if (!run || !run.files[chosen.profiler.value]) return missing();
    bench.load(run.files[chosen.profiler.value], done, missing, index.version);
  }

  /** The profile as a tree of functions: seconds, or bytes, of each with its callers; own, and with all that it calls. */
  function treeOf(profile, side, root) {
    var total = 0, nodes = [root], unit = 1;
    profile.own.forEach(function (count) { total += count; });
    if (profile.unit === "samples") unit = total ? profile.seconds / total : 0;
    profile.frame.forEach(function (frame, number) {
      nodes.push(childOf(nodes[profile.parent[number]], profile.frames[frame]));
      nodes[number + 1].self[side] += profile.own[number] * unit;
    });
  }

  function childOf(node, name) {
    if (!node.byName[name]) node.children.push(node.byName[name] = newNode(name));
    return node.byName[name];
  }

  function newNode(name) { return { name: name, children: [], byName: Object.create(null), self: [0, 0], total: [0, 0] }; }

  /** A function that only one side has is as wide as there, so that what was removed can be seen. */
  function sumUp(node, isDifference) {
    node.total = node.self.slice();
    node.value = isDifference ? Math.max(node.self[0], node.self[1]) : node.self[1];
    node.children.forEach(function (child) {
      sumUp(child, isDifference);
      node.total[0] += child.total[0];
      node.total[1] += child.total[1];
      node.value += child.value;
    });
    delete node.byName;
  }

  function render(before, after) {
    var root = newNode("all"), isDifference = Boolean(before);
    if (before) treeOf(before, 0, root);
    treeOf(after, 1, root);
    root.unit = after.unit;
    sumUp(root, isDifference);
    root.isDifference = isDifference;
    said.textContent = isDifference ?
      amount(root.total[0], root) + " before, " + amount(root.total[1], root) + " after: " + signed(root.total[1] - root.total[0], root) :
      amount(root.total[1], root) + (after.unit === "samples" ? ", " + after.samples.toLocaleString("en") + " samples" : "");
    document.getElementById("legend").hidden = !isDifference;
    draw(root);
    fillTable(root);
  }

  function clear() { place.replaceChildren(); document.getElementById("functions").replaceChildren(); detail.textContent = ""; graph = null; }

  function amount(value, root) { return words.value(value, root.unit === "bytes" ? "allocated_bytes" : "time_s"); }
  function signed(value, root) { return (value < 0 ? "−" : "+") + amount(Math.abs(value), root); }

  function draw(root) {
    var width = Math.max(place.clientWidth, 280), copy = structuredClone(root);
    var chart = flameGraphs.flamegraph().width(width).cellHeight(ROW).minFrameSize(1).transitionDuration(0).sort(true).selfValue(false)
      .setColorMapper(function (node, original) { return root.isDifference ? changed(node, original) : colour(node, original); })
      .setLabelHandler(function (node) { return label(node.data, root); })
      .setDetailsHandler(function (text) { detail.textContent = text || HINT; })
      .setSearchHandler(function () {});
    place.replaceChildren();
    flameGraphs.select(place).datum(copy).call(chart);
    graph = { chart: chart, tree: root, width: place.clientWidth };
    search();
  }

  /** Red where time was added, blue where it was removed: with all that it calls, or in the function itself. */
  function changed(node, original) {
    var sides = node.data[chosen.by.value], value = node.data.value || 1;
    return flameGraphs.colorMapper.differentialColorMapper({ highlight: node.highlight, delta: sides[1] - sides[0], value: value, data: node.data }, original);
  }

  function colour(node, original) {
    if (node.highlight) return original;
    if (node.data.name === WAITING) return "rgb(148,163,184)";
    var hash = 0, module_ = node.data.name.split(":")[0];
    for (var at = 0; at < module_.length; at++) hash = (31 * hash + module_.charCodeAt(at)) % 997;
    return "hsl(" + (15 + hash % 45) + ",85%," + (62 + hash % 13) + "%)";
  }

  function label(node, root) {
    function both(sides) {
      if (!root.isDifference) return amount(sides[1], root);
      return amount(sides[0], root) + " → " + amount(sides[1], root) + " (" + signed(sides[1] - sides[0], root) + ")";
    }
    return node.name + ": total " + both(node.total) + ", self " + both(node.self);
  }

  function search() {
    if (!graph) return;
    if (only.value) graph.chart.search(only.value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")); else graph.chart.clear();
    fillTable(graph.tree);
  }

  /** Self and total of each function, over all its callers. In a recursion, the total counts once. */
  function functionsOf(root) {
    var found = new Map();
    (function walk(node, above) {
      var isNew = !above.has(node.name), waits = node.name === WAITING;
      if (node !== root && !waits) {
        if (!found.has(node.name)) found.set(node.name, { name: node.name, self: [0, 0], total: [0, 0] });
        var one = found.get(node.name), own = node.children.filter(function (child) { return child.name === WAITING; }).concat(node);
        own.forEach(function (part) { [0, 1].forEach(function (side) { one.self[side] += part.self[side]; }); });
        if (isNew) [0, 1].forEach(function (side) { one.total[side] += node.total[side]; });
      }
      var below = isNew ? new Set(above).add(node.name) : above;
      node.children.forEach(function (child) { walk(child, below); });
    })(root, new Set());
    return Array.from(found.values());
  }

  function fillTable(root) {
    var isDifference = root.isDifference, wanted = only.value.toLowerCase();
    var rows = functionsOf(root).filter(function (one) { return one.name.toLowerCase().includes(wanted); });
    function size(one) { return isDifference ? Math.abs(one.self[1] - one.self[0]) : one.self[1]; }
    rows.sort(function (one, other) { return size(other) - size(one); });
    var heads = isDifference ? ["Function", "Self before", "Self after", "Self difference", "Total before", "Total after", "Total difference"] : ["Function", "Self", "Total"];
    var head = element("tr", {}, heads.map(function (title, at) { return element("th", { scope: "col", class: at ? "num" : null }, title); }));
    var body = element("tbody", {}, rows.slice(0, MOST_ROWS).map(function (one) { return rowOf(one, root); }));
    var table = element("table", { class: "list sortable" }, [element("caption", { class: "hidden" }, "Functions"), element("thead", {}, head), body]);
    bench.setUpSorting(table);
    document.getElementById("functions").replaceChildren(table);
  }

  function rowOf(one, root) {
    function cell(value, text) { return element("td", { class: "num", "data-value": value }, text); }
    function cells(sides) {
      if (!root.isDifference) return [cell(sides[1], amount(sides[1], root))];
      var more = sides[1] - sides[0];
      return [cell(sides[0], amount(sides[0], root)), cell(sides[1], amount(sides[1], root)), cell(more, signed(more, root))];
    }
    return element("tr", {}, [element("th", { scope: "row", class: "mono" }, one.name)].concat(cells(one.self), cells(one.total)));
  }

  bench.load("profiles/" + slug, start);
})();
