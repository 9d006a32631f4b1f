/* page.js - the curves of a report on a canvas by dygraphs: hover, zoom, log axis, smoothing. */
(function () {
"use strict";
if (typeof Dygraph === "undefined")
	return;

const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const dashes = [null, [6, 3], [2, 2], [8, 3, 2, 3]];
const graphs = [];
const state = { axis: "step", smooth: 0, range: null };
const finger = matchMedia("(pointer: coarse)").matches;

function color(name) {
	return getComputedStyle(root).getPropertyValue(name).trim();
}

/* ---- numbers ---- */

function count(value) {
	const units = ["", "k", "M", "G", "T"];
	let unit = 0;
	for (; Math.abs(value) >= 1000 && unit < units.length - 1; unit++)
		value /= 1000;
	return Number(value.toPrecision(3)) + units[unit];
}

function number(value, format) {
	if (value === null || !isFinite(value))
		return "–";
	if (format === "percent")
		return value.toFixed(2);
	if (format === "count")
		return count(value);
	const size = Math.abs(value);
	return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(4)));
}

function tick(value, format) {
	if (format === "count" || Math.abs(value) >= 10000)
		return count(value);
	return value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential(0) : String(Number(value.toPrecision(4)));
}

function duration(seconds) {
	const s = Math.floor(seconds), two = n => String(n).padStart(2, "0");
	return s < 60 ? Number(seconds.toPrecision(3)) + " s"
		: s < 3600 ? Math.floor(s / 60) + ":" + two(s % 60)
			: Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
}

function place(x) {
	return state.axis === "time" ? duration(x) : "step " + x.toLocaleString("en").replace(/,/g, " ");
}

/* ---- series ---- */

/* An exponential moving average that does not lean to zero at its beginning. */
function smoothed(y, weight) {
	let sum = 0, norm = 0;
	return y.map(v => {
		sum = weight * sum + (1 - weight) * v;
		norm = weight * norm + (1 - weight);
		return sum / norm;
	});
}

/* Rows of dygraphs: x, then a value of each curve or null. A smoothed curve has its own numbers behind it; evaluations and curves
 * without noise stay as they are. */
function rows(chart) {
	const width = chart.series.length * (state.smooth ? 2 : 1), found = new Map();
	chart.series.forEach((s, i) => {
		const noisy = !chart.steady && !s.dots;
		const curves = !state.smooth ? [s.y] : noisy ? [s.y, smoothed(s.y, state.smooth)] : [[], s.y];
		s[state.axis].forEach((x, k) => {
			if (x === null)
				return;
			let row = found.get(x);
			if (!row)
				found.set(x, row = [x].concat(new Array(width).fill(null)));
			curves.forEach((y, c) => { row[1 + c * chart.series.length + i] = y.length ? y[k] : null; });
		});
	});
	const list = Array.from(found.values()).sort((a, b) => a[0] - b[0]);
	return list.length ? list : [[0].concat(new Array(width).fill(null))];
}

function faint(hex) {
	return hex.length === 7 ? hex + "40" : hex;
}

/* Names and styles of the curves; names of users are not among them, but in the legend. */
function curves(chart) {
	const labels = ["x"], series = {};
	for (let layer = 0; layer < (state.smooth ? 2 : 1); layer++)
		chart.series.forEach((s, i) => {
			const name = layer + "." + i, behind = state.smooth && layer === 0, own = color("--c" + s.color);
			labels.push(name);
			series[name] = {
				color: behind ? faint(own) : own,
				strokePattern: dashes[s.dash],
				strokeWidth: behind ? 1 : 1.5,
				drawPoints: s.dots && !behind,
				pointSize: 2.5,
				highlightCircleSize: behind ? 0 : 3.5,
			};
		});
	return { labels: labels, series: series, file: rows(chart) };
}

/* The lowest and highest number, so that an axis from zero has room above. */
function bounds(chart) {
	const all = chart.series.map(s => s.y.reduce((a, y) => [Math.min(a[0], y), Math.max(a[1], y)], [Infinity, -Infinity]));
	return [Math.min(...all.map(a => a[0])), Math.max(...all.map(a => a[1]))];
}

/* ---- legends ---- */

function show(figure, chart, values) {
	figure.querySelectorAll(".legend b").forEach((b, i) => {
		const s = chart.series[i];
		b.textContent = number(values ? values[i] : s.y[s.y.length - 1], chart.format);
	});
	const unit = figure.querySelector(".unit");
	unit.textContent = values ? values.place : unit.dataset.text;
}

/* The value of each curve at, or just before, a place. */
function values_at(graph, chart, x) {
	const top = state.smooth ? chart.series.length : 0, found = chart.series.map(() => null);
	const place_of = i => graph.getValue(i, 0);
	let low = 0, high = graph.numRows() - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (place_of(middle) <= x)
			low = middle;
		else
			high = middle - 1;
	}
	for (let i = low, left = found.length; i >= 0 && left && low - i < 20000; i--)
		chart.series.forEach((s, k) => {
			const value = graph.getValue(i, 1 + top + k);
			if (found[k] === null && typeof value === "number" && !isNaN(value)) {
				found[k] = value;
				left--;
			}
		});
	found.place = place(x);
	return found;
}

/* ---- charts ---- */

/* The places of all charts, so that they share an axis. */
function extent() {
	let low = Infinity, high = -Infinity;
	data.charts.forEach(chart => chart.series.forEach(s => s[state.axis].forEach(x => {
		if (x !== null) {
			low = Math.min(low, x);
			high = Math.max(high, x);
		}
	})));
	if (!(low <= high))
		return [0, 1];
	low = low <= 0.2 * high ? 0 : low;
	return [low, high > low ? high + 0.01 * (high - low) : low + 1];
}

let syncing = false;

function each(work) {
	if (syncing)
		return;
	syncing = true;
	graphs.forEach(work);
	syncing = false;
}

function zoom(range) {
	state.range = range;
	document.getElementById("reset").disabled = !range;
	each(g => {
		g.graph.updateOptions({ dateWindow: range || extent(), valueRange: g.value_range() });
	});
}

function interaction() {
	const model = Object.assign({}, Dygraph.defaultInteractionModel);
	if (finger)
		["touchstart", "touchmove", "touchend"].forEach(name => delete model[name]);
	model.dblclick = () => zoom(null);
	return model;
}

function looks() {
	return { gridLineColor: color("--grid"), axisLineColor: color("--line") };
}

function start(figure) {
	const chart = data.charts.find(c => c.id === figure.dataset.chart);
	const log = figure.querySelector(".log"), unit = figure.querySelector(".unit");
	const [low, high] = bounds(chart);
	const entry = {
		chart: chart,
		log: false,
		value_range: () => !entry.log && chart.zero && low >= 0 ? [0, high > 0 ? 1.06 * high : 1] : null,
	};
	unit.dataset.text = unit.textContent;
	entry.graph = new Dygraph(figure.querySelector(".live"), rows(chart), Object.assign({
		legend: "never",
		connectSeparatedPoints: true,
		yRangePad: 8,
		axisLabelFontSize: 11,
		labelsKMB: false,
		digitsAfterDecimal: 6,
		animatedZooms: false,
		dateWindow: extent(),
		valueRange: entry.value_range(),
		interactionModel: interaction(),
		axes: {
			x: { axisLabelFormatter: x => state.axis === "time" ? duration(x) : tick(x), pixelsPerLabel: 55 },
			y: { axisLabelFormatter: y => tick(y, chart.format), axisLabelWidth: 44, pixelsPerLabel: 34 },
		},
		highlightCallback: (event, x) => each(g => show(g.figure, g.chart, values_at(g.graph, g.chart, x))),
		unhighlightCallback: () => each(g => show(g.figure, g.chart, null)),
		zoomCallback: (from, to) => zoom([from, to]),
	}, curves(chart), looks()));
	entry.figure = figure;
	log.hidden = false;
	log.disabled = low <= 0;
	if (low <= 0)
		log.title = "there are numbers that are not positive";
	log.addEventListener("click", () => {
		entry.log = !entry.log;
		log.setAttribute("aria-pressed", String(entry.log));
		entry.graph.updateOptions({ logscale: entry.log, valueRange: entry.value_range() });
	});
	graphs.push(entry);
}

function redraw() {
	each(g => g.graph.updateOptions(Object.assign({ dateWindow: state.range || extent() }, curves(g.chart), looks())));
}

/* ---- controls ---- */

root.classList.add("scripted");
document.querySelectorAll("figure[data-chart]").forEach(start);
if (graphs.length)
	document.querySelector(".controls").hidden = false;

document.getElementById("smooth").addEventListener("input", event => {
	state.smooth = Number(event.target.value);
	document.getElementById("smooth-value").textContent = event.target.value;
	redraw();
});

document.querySelectorAll("[data-axis]").forEach(button => {
	button.addEventListener("click", () => {
		state.axis = button.dataset.axis;
		document.querySelectorAll("[data-axis]").forEach(b => b.setAttribute("aria-pressed", String(b === button)));
		zoom(null);
		redraw();
	});
});

document.getElementById("reset").addEventListener("click", () => zoom(null));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

/* A page that is written anew while the run goes loads itself again, unless its reader is at work in it. */
if (data.refresh > 0)
	setInterval(() => {
		if (!document.hidden && !state.range && !state.smooth && !document.querySelector("figure:hover"))
			location.reload();
	}, 1000 * data.refresh);
})();
