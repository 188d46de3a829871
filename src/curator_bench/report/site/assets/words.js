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

  var STEPS_OF_SECONDS = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 36000, 86400, 172800, 432000, 864000];

  function unitOf(metric, largest) {
    function fitting(units) { return units.find(function (unit) { return largest >= unit[1]; }) || units[units.length - 1]; }
    if (/per_/.test(metric)) return ["", 1];
    if (/_bytes$/.test(metric)) return fitting([["TiB", 0x10000000000], ["GiB", 0x40000000], ["MiB", 0x100000], ["KiB", 1024], ["B", 1]]);
    if (/(_s|_seconds)$/.test(metric)) return fitting([["h", 7200], ["min", 120], ["s", 0.5], ["ms", 5e-4], ["µs", 0]].map(function (unit) {
      return [unit[0], unit[1], { h: 3600, min: 60, s: 1, ms: 1e-3, "µs": 1e-6 }[unit[0]]];
    }));
    return ["", 1];
  }

  /** The ticks of an axis as texts: one unit for all, and as many digits as tell them apart. */
  words.ticks = function (ticks, metric) {
    var unit = unitOf(metric, Math.max.apply(null, ticks.map(Math.abs))), size = unit[2] || unit[1] || 1;
    var step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) / size : Math.abs(ticks[0]) / size || 1;
    if (step < 1e-9 || step >= 1e12) return ticks.map(function (tick) { return tick.toPrecision(3); });
    var places = 0;
    while (places < 9 && Math.abs(step * Math.pow(10, places) - Math.round(step * Math.pow(10, places))) > 1e-6 * step * Math.pow(10, places)) places += 1;
    return ticks.map(function (tick) {
      return (tick / size).toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }) + (unit[0] ? " " + unit[0] : "");
    });
  };

  /** The steps between ticks that are round in the unit of the metric; null where powers of ten are. */
  words.steps = function (metric, largest) {
    var unit = unitOf(metric, largest);
    if (/_bytes$/.test(metric) && !/per_/.test(metric)) {
      var found = [];
      for (var power = 0; power < 60; power += 1) found.push(Math.pow(2, power));
      return found;
    }
    return unit[0] === "min" || unit[0] === "h" ? [1, 2, 5, 10, 30].concat(STEPS_OF_SECONDS) : null;
  };

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
