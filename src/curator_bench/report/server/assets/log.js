// The log of a run as it grows: it follows the end unless it is paused or scrolled up. Lines are text, never HTML.
(function () {
  "use strict";
  var EVERY_MS = 1000, MOST_LINES = 5000;
  var log = document.getElementById("log"), pause = document.getElementById("pause"), toEnd = document.getElementById("to-end");
  var note = document.getElementById("note"), state = document.getElementById("state"), page = document.getElementById("session-page");
  var position = log.dataset.position, running = log.dataset.running === "yes", paused = false;
  var open = document.getElementById("open-line"), asked = new URLSearchParams(location.search);

  function isAtEnd() { return log.scrollHeight - log.scrollTop - log.clientHeight < 40; }
  function goToEnd() { log.scrollTop = log.scrollHeight; }

  function bytes(count) { return count < 1048576 ? Math.round(count / 1024) + " KiB" : (count / 1048576).toFixed(1) + " MiB"; }

  function add(piece) {
    var follows = isAtEnd();
    if (piece.is_new && piece.position) {
      if (position) note.textContent = "The log began anew.";
      log.replaceChildren();
      open = null;
    }
    if (piece.skipped) note.textContent = bytes(piece.skipped) + " are not shown.";
    if (piece.why_not) { if (!position) log.textContent = piece.why_not; return; }
    if (!open) {
      open = document.createElement("span");
      open.id = "open-line";
      log.append(open);
    }
    if (piece.lines.length) open.before(piece.lines.join("\n") + "\n");
    open.textContent = piece.open_line;
    position = piece.position;
    shorten();
    if (follows) goToEnd();
  }

  /** Keeps the page small: the earliest lines go. */
  function shorten() {
    log.normalize();
    var text = log.firstChild;
    if (!text || text === open) return;
    var lines = text.data.split("\n");
    if (lines.length <= MOST_LINES + 500) return;
    text.data = lines.slice(lines.length - MOST_LINES).join("\n");
    note.textContent = "Earlier lines are not shown.";
  }

  function hear(piece) {
    add(piece);
    if (asked.has("run")) { running = false; return; }
    if (state.textContent !== piece.state) state.textContent = piece.state;
    if (piece.page) { page.href = piece.page; page.hidden = false; }
    running = piece.is_running || !piece.page;
    pause.hidden = !piece.is_running;
  }

  pause.addEventListener("click", function () {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (!paused) goToEnd();
  });
  toEnd.addEventListener("click", goToEnd);
  goToEnd();
  if (!asked.has("run")) running = true;  // until it has ended and its session has a page
  served.repeat(EVERY_MS, function (next) {
    if (paused || !running) return next();
    asked.set("position", position);
    served.ask("log.json?" + asked.toString(), function (piece) { hear(piece); next(); }, function () { served.gone(); next(); });
  });
})();
