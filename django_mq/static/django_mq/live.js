// Refreshes the marked parts of a page (django_mq/admin/live.py): asks for what has changed, and waits while one reads.
"use strict";

(() => {
    const MOST_SECONDS = 300;
    const FIRST_SECONDS = 5;
    const FIELDS = "input, textarea, select, [contenteditable]";
    const PARTS = "[data-mq-part]";
    const HOLDERS = "[data-mq-parts]";
    const all = (selector) => [...document.querySelectorAll(selector)];

    const fromHTML = (html) => {
        const template = document.createElement("template");
        template.innerHTML = html;
        return template.content.firstElementChild;
    };

    const takeAttributes = (old, fresh) => {
        for (const {name} of [...old.attributes]) {
            if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
        }
        for (const {name, value} of [...fresh.attributes]) {
            if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
        }
    };

    // Changes as little as possible, so that what is open, ticked or listened to stays.
    const update = (old, fresh) => {
        if (old.isEqualNode(fresh)) return;
        const alike = old.nodeName === fresh.nodeName && old.nodeType === Node.ELEMENT_NODE
            && old.childNodes.length === fresh.childNodes.length;
        if (!alike) {
            old.replaceWith(fresh);
            return;
        }
        takeAttributes(old, fresh);
        const [olds, freshes] = [[...old.childNodes], [...fresh.childNodes]];
        olds.forEach((one, index) => update(one, freshes[index]));
    };

    const start = () => {
        const bar = document.getElementById("mq-live");
        if (!bar || !document.querySelector(`${PARTS}, ${HOLDERS}`)) return;
        const [said, button, news, more] = ["mq-refreshed", "mq-pause", "mq-news", "mq-new"]
            .map((id) => document.getElementById(id));
        let stopped = false;
        let pressed = false;
        let asked = false;
        let failures = 0;
        let seconds = FIRST_SECONDS;
        let timer = null;
        // Whether the parts of the page are those that refreshes have: if not, to load it anew helps nothing.
        let agreed = false;
        let state = new Date();

        const say = (name, isBad = false) => {
            const time = state.toLocaleTimeString(document.documentElement.lang || undefined);
            said.textContent = bar.dataset[name].replace("{time}", time).replace("{seconds}", seconds);
            said.classList.toggle("mq-bad", isBad);
        };

        // What a screen reader is told: new alerts and new rows, not every figure.
        const heard = () => all("[data-mq-news]")
            .map((one) => (one.dataset.mqNews || one.textContent).replace(/\s+/g, " ").trim()).join("; ");
        let known = heard();

        // Why the page must not change now.
        const reason = () => {
            const focus = document.activeElement;
            if (!document.getSelection().isCollapsed) return "selected";
            if (document.querySelector("input.action-select:checked")) return "ticked";
            if (document.querySelector(".mq-filters details[open]")) return "open";
            if (focus && (focus.matches(FIELDS) || (focus.closest(PARTS) && focus.matches(":focus-visible")))) return "focus";
            return pressed ? "pressed" : "";
        };

        const rows = () => all('tr[id^="mq-row-"]').map((row) => row.id.slice("mq-row-".length));
        const versions = () => [
            ...all(PARTS).map((part) => part.dataset.mqPart), ...all(HOLDERS).map((one) => one.dataset.mqParts),
        ];

        // The parts of a holder, in their order.
        const place = (holder, [version, ids], parts) => {
            const wanted = ids.map((id) => document.getElementById(id) || fromHTML(parts[id] || "")).filter(Boolean);
            [...holder.children].filter((one) => !wanted.includes(one)).forEach((one) => one.remove());
            wanted.forEach((one, index) => {
                if (holder.children[index] !== one) holder.insertBefore(one, holder.children[index] || null);
            });
            if (wanted.length === ids.length) holder.dataset.mqParts = version;
        };

        const apply = ({layout, parts = {}, orders = {}, ages = {}, gone = [], new: number = ""}) => {
            const scrolled = window.scrollY > 0;
            for (const [id, html] of Object.entries(parts)) {
                const old = document.getElementById(id);
                if (old) update(old, fromHTML(html));
            }
            for (const [id, order] of Object.entries(orders)) {
                const holder = document.getElementById(id);
                if (holder && !scrolled) place(holder, order, parts);
            }
            for (const [id, texts] of Object.entries(ages)) {
                const spans = document.getElementById(id)?.querySelectorAll(".mq-ago") || [];
                spans.forEach((span, index) => {
                    if (texts[index] !== undefined) span.textContent = texts[index];
                });
            }
            for (const id of gone) {
                const row = document.getElementById(id);
                row?.classList.add("mq-gone");
                row?.setAttribute("title", bar.dataset.gone);
            }
            // What has ended, or is elsewhere, has another page.
            if (agreed && layout !== bar.dataset.layout && !scrolled) window.location.reload();
            const text = layout === bar.dataset.layout ? number : bar.dataset.changed;
            agreed = agreed || layout === bar.dataset.layout;
            const label = more.querySelector("span");
            more.hidden = !text;
            if (label.textContent !== text) label.textContent = news.textContent = text;
            if (heard() !== known) news.textContent = known = heard();
            return Object.keys(orders).length && scrolled ? "scrolled" : "asOf";
        };

        const ask = async () => {
            const headers = {"X-MQ-Have": versions().join(" "), "X-MQ-Rows": rows().join(",")};
            const answer = await fetch(window.location.href, {
                headers, credentials: "same-origin", redirect: "manual", cache: "no-store",
            });
            // A redirect leads to the login page.
            if (answer.type === "opaqueredirect") return "expired";
            if (answer.status === 404) return "ended";
            if (!answer.ok) throw new Error(answer.statusText);
            const changes = await answer.json();
            // The user may have begun to read meanwhile.
            if (stopped || reason()) return reason() || "stopped";
            seconds = changes.wait;
            state = new Date();
            return apply(changes);
        };

        const renew = async () => {
            window.clearTimeout(timer);
            if (asked) return;
            const why = stopped ? "stopped" : reason();
            if (why) say(why);
            if (!why && !document.hidden) {
                asked = true;
                const outcome = await ask().catch(() => "failed");
                asked = false;
                const failed = ["failed", "expired", "ended"].includes(outcome);
                failures = failed ? failures + 1 : 0;
                if (failed) seconds = Math.min(MOST_SECONDS, FIRST_SECONDS * 2 ** failures);
                say(outcome, failed);
                // Old figures must not pass for new ones; once is enough.
                if (failures === 1) news.textContent = said.textContent;
                if (!failed) bar.dataset.renewed = String(Number(bar.dataset.renewed || 0) + 1);
            }
            timer = window.setTimeout(renew, 1000 * (why ? 1 : seconds));
        };

        bar.hidden = false;
        say("asOf");
        button.addEventListener("click", () => {
            stopped = !stopped;
            button.setAttribute("aria-pressed", String(stopped));
            button.textContent = stopped ? button.dataset.resume : button.dataset.pause;
            renew();
        });
        document.addEventListener("visibilitychange", renew);
        document.addEventListener("pointerdown", () => { pressed = true; });
        for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => { pressed = false; });
        timer = window.setTimeout(renew, 1000 * seconds);
    };

    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", start);
    } else {
        start();
    }
})();
