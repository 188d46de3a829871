// The page of sessions that run: what changed is taken from the page as the server has it now.
(function () {
  "use strict";
  var EVERY_MS = 1500;

  function renew(text) {
    var before = document.getElementById("live"), after = new DOMParser().parseFromString(text, "text/html").getElementById("live");
    if (!after || before.innerHTML === after.innerHTML) return;
    var focused = before.contains(document.activeElement) ? document.activeElement.id : "";
    var scrolled = Array.from(before.querySelectorAll(".scroll")).map(function (one) { return [one.id, one.scrollLeft]; });
    before.replaceChildren.apply(before, Array.from(document.importNode(after, true).childNodes));
    scrolled.forEach(function (one) { var found = document.getElementById(one[0]); if (found) found.scrollLeft = one[1]; });
    var again = focused && document.getElementById(focused);
    if (again) again.focus({ preventScroll: true });
  }

  served.repeat(EVERY_MS, function (next) {
    fetch("now.html", { cache: "no-store" }).then(function (answer) {
      if (!answer.ok) throw new Error(answer.status);
      return answer.text();
    }).then(function (text) { renew(text); next(); }).catch(function () { served.gone(); next(); });
  });
})();
