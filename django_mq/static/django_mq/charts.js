// Shows the figures of a chart under the pointer, opens the messages of a step at a click, and zooms into a range that
// is drawn. It listens at the document, because the overview replaces its charts.
"use strict";

(() => {
    const SVG = "http://www.w3.org/2000/svg";
    const FEWEST_STEPS = 3;
    const MOST_MARKS = 5;
    const NEAR = 0.05;
    const read = new WeakMap();
    const tip = document.createElement("div");
    tip.className = "mq-tip";
    tip.hidden = true;
    let begun = null;
    let tapped = null;

    const dataOf = (chart) => {
        if (!read.has(chart)) read.set(chart, JSON.parse(chart.dataset.mqChart));
        return read.get(chart);
    };

    // The chart under the pointer, its figures, and the step.
    const found = (event) => {
        const plot = event.target instanceof Element && event.target.closest(".mq-plot, .mq-cells");
        const chart = plot && plot.closest("[data-mq-chart]");
        if (!chart) return null;
        const data = dataOf(chart);
        const box = plot.getBoundingClientRect();
        const place = Math.min(0.999, Math.max(0, (event.clientX - box.left) / box.width));
        return {plot, chart, data, index: Math.floor(place * data.times.length)};
    };

    const draw = (plot, name, attributes) => {
        const shape = document.createElementNS(SVG, name);
        for (const [attribute, value] of Object.entries(attributes)) shape.setAttribute(attribute, value);
        plot.append(shape);
    };

    // What happened in the step, or so near that the pointer cannot be beside it.
    const happened = (data, index) => data.marks
        .filter(([place]) => Math.abs(place - 100 * (index + 0.5) / data.times.length) < Math.max(1, 50 / data.times.length))
        .map(([, text]) => text).slice(0, MOST_MARKS);

    const moved = (event) => {
        const at = found(event);
        tip.hidden = !at;
        document.querySelectorAll(".mq-cursor").forEach((line) => line.remove());
        if (!at) return;
        const {plot, chart, data, index} = at;
        const lines = data.lines.map(({label, values, before}) =>
            `${label}: ${values[index]}${before.length ? ` (${before[index]})` : ""}`);
        tip.replaceChildren(...[data.times[index], ...lines, ...happened(data, index)].map((text) => {
            const part = document.createElement("div");
            part.textContent = text;
            return part;
        }));
        const right = event.clientX > window.innerWidth / 2;
        tip.style.left = right ? "auto" : `${event.clientX + 14}px`;
        tip.style.right = right ? `${document.documentElement.clientWidth - event.clientX + 14}px` : "auto";
        tip.style.top = `${event.clientY + 14}px`;
        plot.classList.toggle("mq-leads", Boolean(data.address));
        if (!plot.classList.contains("mq-plot")) return;
        const percent = (step) => `${100 * step / data.times.length}%`;
        const place = percent(index + 0.5);
        draw(plot, "line", {class: "mq-cursor", x1: place, x2: place, y1: 4, y2: 124});
        if (begun && begun.chart === chart && data.zoom) {
            const [first, last] = [begun.index, index].sort((one, other) => one - other);
            draw(plot, "rect", {class: "mq-cursor mq-drawn-range", x: percent(first), width: percent(last + 1 - first), y: 4, height: 120});
        }
    };

    const time = (data, index) => new Date(1000 * (data.begin + index * data.step)).toISOString();

    const go = (address, parameters) => {
        const target = new URL(address, window.location.href);
        for (const [name, value] of Object.entries(parameters)) target.searchParams.set(name, value);
        window.location.assign(target);
    };

    // The shortest span that holds the range.
    const zoom = (data, first, last) => {
        const seconds = (last + 1 - first) * data.step;
        const span = seconds <= 3600 ? "hour" : seconds <= 86400 ? "day" : seconds <= 604800 ? "week" : "month";
        go(data.zoom, {span, until: time(data, last + 1)});
    };

    // A finger has no hover: the first tap shows the figures, the second one near it opens the messages.
    const isFirstTap = (event, at) => {
        if (event.pointerType === "mouse") return false;
        const near = tapped && tapped.chart === at.chart
            && Math.abs(tapped.index - at.index) <= NEAR * at.data.times.length;
        if (!near) tapped = at;
        return !near;
    };

    const ended = (event) => {
        const at = found(event);
        const from = begun;
        begun = null;
        if (!at || !from || at.chart !== from.chart || event.button !== 0) return;
        const [first, last] = [from.index, at.index].sort((one, other) => one - other);
        if (last - first >= FEWEST_STEPS && at.data.zoom) return zoom(at.data, first, last);
        if (!at.data.address || isFirstTap(event, at)) return;
        const {index} = event.pointerType === "mouse" ? at : tapped;
        go(at.data.address, {since: time(at.data, index), until: time(at.data, index + 1)});
    };

    document.addEventListener("pointermove", moved);
    document.addEventListener("pointerdown", (event) => {
        begun = found(event);
        moved(event);
    });
    document.addEventListener("pointerup", ended);
    const start = () => document.body.append(tip);
    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", start);
    } else {
        start();
    }
})();
