// One chart: the values of a metric, its levels and the steps between them, runs that measured nothing, and further
// lines beside it. Drawn by uPlot.
(function () {
  "use strict";
  var NARROW = 560, HEIGHT = 260;

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }

  function line(ctx, x1, y1, x2, y2, stroke, width, dash) {
    ctx.save();
    ctx.beginPath();
    ctx.strokeStyle = stroke;
    ctx.lineWidth = width * devicePixelRatio;
    ctx.setLineDash(dash.map(function (one) { return one * devicePixelRatio; }));
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
    ctx.restore();
  }

  function clipped(chart, draw) {
    var box = chart.bbox;
    chart.ctx.save();
    chart.ctx.beginPath();
    chart.ctx.rect(box.left, box.top, box.width, box.height);
    chart.ctx.clip();
    draw();
    chart.ctx.restore();
  }

  function drawLevels(chart, shown) {
    var ctx = chart.ctx;
    shown.levels.forEach(function (part) {
      var left = chart.valToPos(shown.x[part.from], "x", true), right = chart.valToPos(shown.x[part.to], "x", true);
      var middle = chart.valToPos(part.middle, "y", true);
      var upper = chart.valToPos(part.middle + 2 * part.noise, "y", true), lower = chart.valToPos(part.middle - 2 * part.noise, "y", true);
      ctx.fillStyle = colour("band");
      ctx.fillRect(left, upper, Math.max(right - left, 2), lower - upper);
      line(ctx, left, middle, right, middle, colour("accent"), 2, []);
    });
  }

  function drawMarks(chart, shown) {
    var ctx = chart.ctx, box = chart.bbox, bottom = box.top + box.height, unit = devicePixelRatio;
    shown.definitions.forEach(function (place) {
      var x = chart.valToPos(shown.x[place], "x", true);
      line(ctx, x, box.top, x, bottom, colour("quiet"), 1, [3, 4]);
    });
    shown.steps.forEach(function (step) {
      var x = chart.valToPos(shown.x[step.at], "x", true), shade = colour(step.kind === "regression" ? "bad" : "good");
      line(ctx, x, box.top, x, bottom, shade, 1.5, [6, 3]);
      ctx.fillStyle = shade;
      ctx.font = 600 + " " + 12 * unit + "px system-ui, sans-serif";
      var onLeft = x + 70 * unit > box.left + box.width;
      ctx.textAlign = onLeft ? "right" : "left";
      ctx.fillText(step.change, x + (onLeft ? -5 : 5) * unit, box.top + 12 * unit);
    });
    ctx.fillStyle = colour("bad");
    shown.broken.forEach(function (place) {
      var x = chart.valToPos(shown.x[place], "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bottom - 9 * unit);
      ctx.lineTo(x - 4 * unit, bottom - unit);
      ctx.lineTo(x + 4 * unit, bottom - unit);
      ctx.fill();
    });
    shown.ranges.forEach(function (range) {
      var x = chart.valToPos(shown.x[range.at], "x", true);
      line(ctx, x, chart.valToPos(range.low, "y", true), x, chart.valToPos(range.high, "y", true), colour("point"), 1, []);
    });
    if (shown.held != null) {
      var at = chart.valToPos(shown.x[shown.held], "x", true);
      line(ctx, at, box.top, at, bottom, colour("text"), 1, []);
    }
  }

  /** A constant is drawn in the middle; anything else, with the whiskers in view, with some room above and below. */
  function yRange(shown) {
    return function (chart, low, high) {
      if (low == null) return [0, 1];
      var scale = chart.scales.x;
      shown.ranges.forEach(function (range) {
        if (shown.x[range.at] < scale.min || shown.x[range.at] > scale.max) return;
        low = Math.min(low, range.low);
        high = Math.max(high, range.high);
      });
      var room = high > low ? 0.12 * (high - low) : 0.05 * Math.abs(low) || 1;
      return [low - room, high + room];
    };
  }

  /** As the rest of the site writes days: year, month, day. */
  function days(chart, ticks, axis, space, step) {
    return ticks.map(function (tick) {
      var iso = new Date(1000 * tick).toISOString();
      return step >= 86400 ? iso.slice(chart.width < NARROW ? 5 : 0, 10) : iso.slice(5, 16).replace("T", " ");
    });
  }

  function valueAxis(shown) {
    var values = shown.columns.reduce(function (all, column) { return all.concat(column); }, []).filter(function (value) { return value != null; });
    var largest = values.reduce(function (most, value) { return Math.max(most, Math.abs(value)); }, 0), steps = bench.words.steps(shown.metric, largest);
    return Object.assign({ size: 86, values: function (chart, ticks) { return bench.words.ticks(ticks, shown.metric); } }, steps ? { incrs: steps } : {});
  }

  function options(shown, width, hooks) {
    var axis = { stroke: function () { return colour("quiet"); }, grid: { stroke: function () { return colour("grid"); }, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    var isLong = shown.x.length > 400;
    function points(name, size) {
      return { stroke: function () { return colour(name); }, fill: function () { return colour(name); }, size: size, show: true };
    }
    var own = [
      { stroke: function () { return colour("point"); }, width: isLong ? 0.8 : 1.2, spanGaps: true, alpha: 0.95, points: points("point", isLong ? 3 : 5) },
      { stroke: function () { return colour("quiet"); }, width: 0.6, spanGaps: true, alpha: 0.5, points: points("quiet", 4) },
      { paths: function () { return null; }, stroke: function () { return colour("bad"); }, points: points("bad", 6) },
    ];
    var beside = shown.lines.slice(1).map(function (one) {
      return { stroke: function () { return colour(one.colour); }, width: 1.2, spanGaps: true, points: points(one.colour, isLong ? 3 : 4) };
    });
    return {
      width: width, height: HEIGHT, legend: { show: false }, padding: [8, 10, 0, 0],
      tzDate: function (time) { return uPlot.tzDate(new Date(1000 * time), "Etc/UTC"); },
      scales: { x: { time: shown.isTime }, y: { range: yRange(shown) } },
      cursor: { y: false, drag: { x: true, y: false, setScale: true }, points: { size: 9 }, focus: { prox: 24 } },
      axes: [Object.assign({}, axis, { size: 32 }, shown.isTime ? { values: days, space: width < NARROW ? 62 : 95 } : {}), Object.assign({}, axis, valueAxis(shown))],
      series: [{}].concat(own, beside),
      hooks: hooks,
    };
  }

  /** Draws into `plot`. `shown` has x, columns of values, lines, levels, steps, marks; `tell(place)` is called for the run
   *  under the cursor (null: none), `hold(place)` for the one that is chosen, `zoom(from, to)` for the range in view. */
  bench.chart = function (plot, shown, tell, hold, zoom) {
    var last = shown.x.length - 1, at = null, down = 0, isReady = false;
    var chart = new uPlot(options(shown, plot.clientWidth, {
      drawClear: [function (chart) { clipped(chart, function () { drawLevels(chart, shown); }); }],
      draw: [function (chart) { clipped(chart, function () { drawMarks(chart, shown); }); }],
      setCursor: [function (chart) {
        at = chart.cursor.left >= 0 && chart.cursor.idx != null ? chart.cursor.idx : null;
        tell(at, at == null ? 0 : chart.valToPos(shown.x[at], "x") + chart.over.offsetLeft, plot.clientWidth);
      }],
      setSelect: [function (chart) {
        if (isReady && chart.select.width > 4) zoom(chart.posToVal(chart.select.left, "x"), chart.posToVal(chart.select.left + chart.select.width, "x"));
      }],
    }), [shown.x].concat(shown.columns), plot);
    isReady = true;
    var watching = new ResizeObserver(function () { if (plot.clientWidth) chart.setSize({ width: plot.clientWidth, height: HEIGHT }); });
    watching.observe(plot);

    function show(from, to) {
      chart.setScale("x", from == null || last < 1 ? { min: shown.x[0], max: shown.x[last] } : { min: from, max: to });
    }
    function move(place) {
      at = Math.min(Math.max(place, 0), last);
      var x = shown.x[at], scale = chart.scales.x;
      if (x < scale.min || x > scale.max) show();
      var value = shown.columns.map(function (column) { return column[at]; }).find(function (one) { return one != null; });
      chart.setCursor({ left: chart.valToPos(x, "x"), top: value == null ? 10 : chart.valToPos(value, "y") });
      tell(at, chart.valToPos(x, "x") + chart.over.offsetLeft, plot.clientWidth);
    }
    function choose(place) {
      shown.held = place;
      chart.redraw(false);
      hold(place);
    }
    // Before uPlot sees it, which keeps clicks to itself; a drag zooms and chooses nothing.
    plot.onmousedown = function (event) { down = event.clientX; };
    function clicked(event) {
      if (event.target !== chart.over || Math.abs(event.clientX - down) > 4) return;
      choose(chart.posToIdx(event.clientX - chart.over.getBoundingClientRect().left));
    }
    function zoomedOut() { zoom(null, null); }
    plot.addEventListener("click", clicked, true);
    plot.addEventListener("dblclick", zoomedOut);
    plot.onkeydown = function (event) {
      var steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }, scale = chart.scales.x;
      if (event.key in steps) move((at == null ? (steps[event.key] < 0 ? last + 1 : -1) : at) + steps[event.key]);
      else if (event.key === "Home") move(0);
      else if (event.key === "End") move(last);
      else if (event.key === "Enter" && at != null) choose(at);
      else if (event.key === "0") zoom(null, null);
      else if (event.key === "+" && at != null) zoom((scale.min + shown.x[at]) / 2, (scale.max + shown.x[at]) / 2);
      else if (event.key === "Escape") { chart.setCursor({ left: -10, top: -10 }); tell(null, 0, 0); at = null; }
      else return;
      event.preventDefault();
    };
    return {
      redraw: function () { chart.redraw(false); },
      choose: choose,
      show: show,
      destroy: function () {
        watching.disconnect();
        plot.removeEventListener("click", clicked, true);
        plot.removeEventListener("dblclick", zoomedOut);
        chart.destroy();
        plot.onkeydown = null;
      },
    };
  };
})();
