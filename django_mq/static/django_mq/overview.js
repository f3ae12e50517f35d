// Renews the figures of the overview every few seconds, unless told to stand still or nobody looks.
"use strict";

(() => {
    const SECONDS = 5;

    // What the table has no column for.
    const UNTOLD = '[data-mq-kind="full"], [data-mq-kind="failing"]';
    const plain = (text) => text.replace(/\s+/g, " ").trim();

    // The workers, the queues with something in red or paused, and those that are full or failing.
    const told = (figures) => {
        const line = figures.querySelector("[data-mq-news]");
        const rows = [...figures.querySelectorAll("tbody tr")].filter((row) => row.querySelector(".mq-bad, .mq-warn"));
        const names = rows.map((row) => [row.querySelector("th"), row.querySelector(".mq-warn")]
            .map((part) => part ? part.textContent.trim() : "").join(" "));
        const more = [...figures.querySelectorAll(UNTOLD)].map((item) => [...item.children].slice(0, 2)
            .map((part) => plain(part.textContent)).join(" "));
        return [line ? plain(line.textContent) : "", ...names, ...more].join("; ");
    };

    const start = () => {
        const figures = document.getElementById("mq-figures");
        const button = document.getElementById("mq-pause");
        const said = document.getElementById("mq-refreshed");
        if (!figures || !button || !said) return;
        let standing = false;

        const address = new URL(window.location.href);
        address.searchParams.set("part", "1");

        const news = document.getElementById("mq-news");
        let heard = told(figures);

        // Figures that stand still unseen would be believed.
        const complain = (words) => {
            if (news && said.textContent !== words) news.textContent = words;
            said.textContent = words;
            said.classList.add("mq-bad");
        };

        const renew = async () => {
            // Who reads or tabs through the figures must not lose the place.
            const busy = figures.contains(document.activeElement) || !document.getSelection().isCollapsed;
            if (standing || document.hidden) return;
            if (busy) {
                said.textContent = said.dataset.busy;
                return;
            }
            try {
                // Who is logged out is sent to log in; that page is none of the figures.
                const answer = await fetch(address, {credentials: "same-origin", redirect: "manual"});
                if (answer.type === "opaqueredirect") return complain(said.dataset.expired);
                if (!answer.ok) throw new Error(answer.statusText);
                const text = await answer.text();
                if (standing) return;
                figures.innerHTML = text;
                // A screen reader announces new alerts only, not every figure every few seconds.
                if (news && told(figures) !== heard) news.textContent = heard = told(figures);
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
            standing = !standing;
            button.setAttribute("aria-pressed", String(standing));
            button.textContent = standing ? button.dataset.resume : button.dataset.pause;
            if (!standing) renew();
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
