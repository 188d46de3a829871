// What pages of `curator-bench serve` do more: they hear of newer data, of sessions that run, and that the server ended.
(function () {
  "use strict";
  var EVERY_MS = 3000, WHILE_BUILDING_MS = 500;
  var note = document.getElementById("newer"), now = document.getElementById("now"), building = document.getElementById("building");
  var top_ = document.body.dataset.top, served = window.served = {}, loaded = null, said = "";
  var here = new URL(location.href).pathname, home = new URL(top_ || ".", location.href).pathname;
  var page = here.slice(home.length);

  /** Calls `done` with the JSON at this address, and `failed` if the server does not answer. */
  served.ask = function (address, done, failed) {
    fetch(top_ + address, { cache: "no-store" }).then(function (answer) {
      if (!answer.ok) throw new Error(answer.status);
      return answer.json();
    }).then(done).catch(failed);
  };

  served.gone = function () { say("curator-bench serve has ended, or cannot be reached. This page shows what was known."); };

  /** Repeats `act`, which calls what it is given when it is done, while somebody looks at the page. */
  served.repeat = function (everyMs, act) {
    var waiting = null, busy = false;
    function next() { busy = false; clearTimeout(waiting); waiting = setTimeout(step, everyMs); }
    function step() { if (busy || document.visibilityState === "hidden") return; busy = true; act(next); }
    document.addEventListener("visibilitychange", function () { if (document.visibilityState === "visible") step(); });
    step();
  };

  function say(text, action) {
    if (text === said) return;
    said = text;
    note.replaceChildren(text);
    if (action) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = "Reload";
      button.addEventListener("click", function () { location.reload(); });
      note.append(button);
    }
  }

  function hear(state) {
    now.textContent = state.running ? "Running (" + state.running + ")" : "Running";
    if (building) {
      building.textContent = state.problem || state.building || "It begins …";
      if (state.written || (state.is_there && !state.building)) location.reload();
      return;
    }
    if (loaded === null) loaded = state.written;
    if (state.problem) say(state.problem);
    else if (state.written !== loaded) say("This page has newer data.", true);
    else say("");
  }

  served.repeat(building ? WHILE_BUILDING_MS : EVERY_MS, function (next) {
    served.ask("state.json?page=" + encodeURIComponent(page), function (state) { hear(state); next(); }, function () { served.gone(); next(); });
  });
})();
