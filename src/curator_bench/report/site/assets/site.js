// What every page has: data that is handed over by scripts, search, colours, tables that sort and filter.
// Whatever comes from data is put into the page as text, never as HTML.
(function () {
  "use strict";
  var top_ = document.body.dataset.top;
  var waiting = {}, known = {};

  window.benchData = function (key, value) {
    known[key] = value;
    (waiting[key] || []).forEach(function (done) { done(value); });
    delete waiting[key];
  };

  var bench = window.bench = {};

  bench.top = top_;

  /** Calls `done` with the data of this key, and `failed` where there is none. A page from a folder may not fetch.
   *  `version` is a text that changes with the data; without one it is asked for again on each page. */
  bench.load = function (key, done, failed, version) {
    if (key in known) return done(known[key]);
    if (waiting[key]) return waiting[key].push(done);
    waiting[key] = [done];
    var script = document.createElement("script");
    script.src = top_ + "data/" + key + ".js?v=" + (version || Date.now());
    script.onerror = function () { delete waiting[key]; if (failed) failed(); };
    document.head.appendChild(script);
  };

  /** An element with these attributes and children; a child that is a text stays one. */
  bench.element = function (name, attributes, children) {
    var made = document.createElement(name);
    Object.keys(attributes || {}).forEach(function (key) { if (attributes[key] != null) made.setAttribute(key, attributes[key]); });
    [].concat(children == null ? [] : children).forEach(function (child) { made.append(child); });
    return made;
  };

  /** What stands behind the # of the address, as names and values. */
  bench.place = function () { return new URLSearchParams(location.hash.slice(1)); };

  bench.setPlace = function (values) {
    var place = bench.place();
    Object.keys(values).forEach(function (key) { values[key] == null ? place.delete(key) : place.set(key, values[key]); });
    history.replaceState(null, "", "#" + place.toString());
  };

  function setUpTheme() {
    var names = { "": "as the system has them", light: "light", dark: "dark" }, next = { "": "dark", dark: "light", light: "" };
    var button = document.getElementById("theme");
    function show() {
      var label = "Colours: " + names[document.documentElement.dataset.theme || ""];
      button.setAttribute("aria-label", label);
      button.title = label;
      document.dispatchEvent(new Event("bench-theme"));
    }
    button.addEventListener("click", function () {
      var theme = next[document.documentElement.dataset.theme || ""];
      if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
      try { localStorage.setItem("curator-bench-theme", theme); } catch (error) { button.dataset.kept = "no"; }
      show();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
    show();
  }

  function setUpSearch() {
    var input = document.getElementById("search"), list = document.getElementById("found"), at = -1;
    function close() { list.hidden = true; at = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); }
    function choose(step) {
      var items = list.querySelectorAll("[data-link]");
      if (!items.length) return;
      at = (at + step + items.length) % items.length;
      items.forEach(function (item, place) { item.setAttribute("aria-selected", String(place === at)); });
      items[at].scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", items[at].id);
    }
    function show(found) {
      list.replaceChildren.apply(list, found.map(function (one, place) {
        return bench.element("li", { id: "found-" + place, role: "option", "aria-selected": "false", "data-link": one.link },
          [one.name, bench.element("small", {}, one.what)]);
      }));
      if (!found.length) list.append(bench.element("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing found"));
      list.hidden = false;
      at = -1;
      input.setAttribute("aria-expanded", "true");
    }
    function search() {
      var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (!words.length) return close();
      bench.load("index", function (index) { show(find(index, words).slice(0, 30)); });
    }
    input.addEventListener("input", search);
    input.addEventListener("focus", function () { bench.load("index", function () {}); if (input.value) search(); });
    input.addEventListener("keydown", function (event) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); choose(event.key === "ArrowDown" ? 1 : -1); }
      else if (event.key === "Escape") { close(); input.value = ""; }
      else if (event.key === "Enter") {
        var item = list.querySelectorAll("[data-link]")[Math.max(at, 0)];
        if (item && !list.hidden) location.href = item.dataset.link;
      }
    });
    list.addEventListener("mousedown", function (event) {
      var item = event.target.closest("[data-link]");
      if (item) { event.preventDefault(); location.href = item.dataset.link; }
    });
    input.addEventListener("blur", function () { setTimeout(close, 150); });
    document.addEventListener("keydown", function (event) {
      var typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); input.focus(); }
    });
  }

  function find(index, words) {
    function fits(text) { text = text.toLowerCase(); return words.every(function (word) { return text.includes(word); }); }
    var found = [];
    index.entries.forEach(function (entry) {
      var page = top_ + "entries/" + entry.slug + ".html";
      if (fits(entry.name + " " + entry.path)) found.push({ name: entry.name, what: "entry in " + entry.path, link: page });
    });
    index.sessions.forEach(function (session) {
      if (fits(session.slice(1).join(" "))) {
        var what = "session of " + session[2] + (session[3] ? ", " + session[3].slice(0, 10) : "") + (session[4] ? " on " + session[4] : "");
        found.push({ name: session[1], what: what, link: top_ + "sessions/" + session[0] + ".html" });
      }
    });
    index.entries.forEach(function (entry) {
      if (found.length > 200) return;
      entry.metrics.forEach(function (metric) {
        if (fits(metric + " " + entry.name) && !fits(entry.name))
          found.push({ name: metric, what: "metric of " + entry.name, link: top_ + "entries/" + entry.slug + ".html#metric=" + encodeURIComponent(metric) });
      });
    });
    return found;
  }

  function setUpFilter() {
    var input = document.querySelector("[data-filters]");
    if (!input) return;
    var rows = Array.from(document.querySelectorAll("#" + CSS.escape(input.dataset.filters) + " tbody tr"));
    var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
    function filter() {
      var words = input.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
      rows.forEach(function (row, place) {
        var fits = words.every(function (word) { return texts[place].includes(word); });
        row.hidden = !fits;
        shown += fits;
      });
      document.getElementById("filtered").textContent = words.length ? shown + " of " + rows.length : "";
      if (words.length || bench.place().has("show")) bench.setPlace({ show: input.value || null });
    }
    input.addEventListener("input", filter);
    if (bench.place().has("show")) { input.value = bench.place().get("show"); filter(); }
  }

  function setUpSorting(table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      var button = bench.element("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table.tBodies[0], column, down ? -1 : 1);
      });
    });
  }

  function sort(body, column, sign) {
    var rows = Array.from(body.rows).map(function (row) {
      var cell = row.cells[column], value = cell.dataset.value;
      return { row: row, key: value == null ? cell.textContent.trim().toLowerCase() : value === "" ? -Infinity : Number(value) };
    });
    rows.sort(function (one, other) {
      var order = typeof one.key === "number" ? one.key - other.key : String(one.key).localeCompare(String(other.key), "en", { numeric: true });
      return sign * order;
    });
    body.append.apply(body, rows.map(function (one) { return one.row; }));
  }

  /** Whether a link leads anywhere: on a web host, what lies beside the site is not there. */
  bench.isHere = function (link) { return location.protocol === "file:" || !link.startsWith("../"); };

  document.querySelectorAll("a.outside").forEach(function (link) {
    if (!bench.isHere("../")) link.replaceWith(bench.element("span", { class: "quiet", title: link.title }, "log not here"));
  });

  /** A button that copies the address of what the page shows. */
  bench.setUpCopying = function (button) {
    function said(text) { button.textContent = text; setTimeout(function () { button.textContent = "Copy link to this view"; }, 2000); }
    button.addEventListener("click", function () {
      if (!navigator.clipboard) return said("The address bar has the link");
      navigator.clipboard.writeText(location.href).then(function () { said("Copied"); }, function () { said("The address bar has the link"); });
    });
  };

  bench.fill = function (select, options) {
    select.replaceChildren.apply(select, options.map(function (option) { return bench.element("option", { value: option[0] }, option[1]); }));
  };

  bench.setUpSorting = setUpSorting;
  setUpTheme();
  setUpSearch();
  setUpFilter();
  document.querySelectorAll("table.sortable").forEach(setUpSorting);
})();
