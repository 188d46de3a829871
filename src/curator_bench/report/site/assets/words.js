// Numbers, changes and times as people read them; the same rules as the pages were written by.
(function () {
  "use strict";
  var words = bench.words = {};

  function digits(value, count) { return Number(value.toPrecision(count)).toLocaleString("en", { maximumFractionDigits: 20 }); }

  function seconds(value) {
    if (value > 0 && value < 1e-4) return digits(1e6 * value, 3) + " µs";
    if (value > 0 && value < 0.1) return digits(1e3 * value, 3) + " ms";
    if (value < 1) return digits(value, 3) + " s";
    if (value < 10) return value.toFixed(2) + " s";
    if (value < 99.95) return value.toFixed(1) + " s";
    var whole = Math.round(value), minutes = Math.floor(whole / 60);
    if (minutes < 60) return minutes + " min " + String(whole % 60).padStart(2, "0") + " s";
    return Math.floor(minutes / 60) + " h " + String(minutes % 60).padStart(2, "0") + " min";
  }

  function bytes(value) {
    var units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], place = 0;
    while (Math.abs(value) >= 1024 && place < units.length - 1) { value /= 1024; place += 1; }
    return (place ? value.toFixed(2) : Math.round(value)) + " " + units[place];
  }

  words.value = function (value, metric) {
    if (value == null) return "–";
    if (!/per_/.test(metric)) {
      if (/_bytes$/.test(metric)) return bytes(value);
      if (/(_s|_seconds)$/.test(metric) && value >= 0) return seconds(value);
    }
    if (Math.abs(value) >= 1e15 || (value && Math.abs(value) < 1e-4)) return value.toPrecision(4);
    return Math.abs(value) >= 10000 ? Math.round(value).toLocaleString("en") : digits(value, 4);
  };

  words.change = function (fraction) {
    if (fraction == null || isNaN(fraction)) return "–";
    if (!isFinite(fraction)) return "no longer zero";
    var text = (100 * Math.abs(fraction)).toFixed(Math.abs(fraction) >= 1 ? 0 : 1);
    return (fraction < 0 ? "−" : "+") + text + " %";
  };

  words.moment = function (time) { return time == null ? "–" : new Date(1000 * time).toISOString().slice(0, 16).replace("T", " "); };

  words.median = function (values) {
    var sorted = values.slice().sort(function (one, other) { return one - other; }), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  };
})();
