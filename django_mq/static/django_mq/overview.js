// Refreshes the figures of the overview every few seconds, unless it is stopped or the page is hidden.
"use strict";

(() => {
    const SECONDS = 5;

    // Alerts without a column in the table.
    const OTHERS = '[data-mq-kind="full"], [data-mq-kind="failing"]';
    const plain = (text) => text.replace(/\s+/g, " ").trim();

    // The text for screen readers: the workers, and the queues with something in red, paused, full or failing.
    const summary = (figures) => {
        const line = figures.querySelector("[data-mq-news]");
        const rows = [...figures.querySelectorAll("tbody tr")].filter((row) => row.querySelector(".mq-bad, .mq-warn"));
        // The column is short: the rest of it, such as the reason of a pause, is on hover.
        const names = rows.map((row) => [row.querySelector("th"), row.querySelector(".mq-warn")]
            .map((part) => part ? (part.title || part.textContent).trim() : "").join(" "));
        const more = [...figures.querySelectorAll(OTHERS)].map((item) => [...item.children].slice(0, 2)
            .map((part) => plain(part.textContent)).join(" "));
        return [line ? plain(line.textContent) : "", ...names, ...more].join("; ");
    };

    const start = () => {
        const figures = document.getElementById("mq-figures");
        const button = document.getElementById("mq-pause");
        const said = document.getElementById("mq-refreshed");
        if (!figures || !button || !said) return;
        let stopped = false;

        const address = new URL(window.location.href);
        address.searchParams.set("part", "1");

        const news = document.getElementById("mq-news");
        let heard = summary(figures);

        // Old figures must not pass for new ones.
        const complain = (words) => {
            if (news && said.textContent !== words) news.textContent = words;
            said.textContent = words;
            said.classList.add("mq-bad");
        };

        const renew = async () => {
            // Do not refresh while the user selects text or tabs through the figures.
            const busy = figures.contains(document.activeElement) || !document.getSelection().isCollapsed;
            if (stopped || document.hidden) return;
            if (busy) {
                said.textContent = said.dataset.busy;
                return;
            }
            try {
                // A redirect leads to the login page.
                const answer = await fetch(address, {credentials: "same-origin", redirect: "manual"});
                if (answer.type === "opaqueredirect") return complain(said.dataset.expired);
                if (!answer.ok) throw new Error(answer.statusText);
                const text = await answer.text();
                if (stopped) return;
                figures.innerHTML = text;
                // A screen reader announces new alerts only, not every figure every few seconds.
                if (news && summary(figures) !== heard) news.textContent = heard = summary(figures);
                const now = new Date().toLocaleTimeString(document.documentElement.lang || undefined);
                said.textContent = `${said.dataset.label} ${now}`;
                said.classList.remove("mq-bad");
                figures.dataset.renewed = String(Number(figures.dataset.renewed || 0) + 1);
            } catch {
                complain(said.dataset.failed);
            }
        };

        button.hidden = false;
        button.addEventListener("click", () => {
            stopped = !stopped;
            button.setAttribute("aria-pressed", String(stopped));
            button.textContent = stopped ? button.dataset.resume : button.dataset.pause;
            if (!stopped) renew();
        });
        document.addEventListener("visibilitychange", renew);
        window.setInterval(renew, SECONDS * 1000);
    };

    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", start);
    } else {
        start();
    }
})();
