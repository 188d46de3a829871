// The colours a person chose, before anything is drawn. Where nothing can be kept (some browsers, from a folder) it is the system's.
(function () {
  "use strict";
  try {
    var chosen = localStorage.getItem("curator-bench-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch (error) {
    delete document.documentElement.dataset.theme;
  }
})();
