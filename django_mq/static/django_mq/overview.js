// Renews the figures of the overview every few seconds, unless told to stand still or nobody looks.
"use strict";

(() => {
    const SECONDS = 5;

    // The workers, and the queues with something in red or paused.
    const told = (figures) => {
        const line = figures.querySelector("[data-mq-news]");
        const rows = [...figures.querySelectorAll("tbody tr")].filter((row) => row.querySelector(".mq-bad, .mq-warn"));
        const names = rows.map((row) => [row.querySelector("th"), row.querySelector(".mq-warn")]
            .map((part) => part ? part.textContent.trim() : "").join(" "));
        return [line ? line.textContent.replace(/\s+/g, " ").trim() : "", ...names].join("; ");
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

        const renew = async () => {
            // Who reads or tabs through the figures must not lose the place.
            const busy = figures.contains(document.activeElement) || !document.getSelection().isCollapsed;
            if (standing || document.hidden || busy) return;
            try {
                const answer = await fetch(address, {credentials: "same-origin", redirect: "error"});
                if (!answer.ok) throw new Error(answer.statusText);
                const text = await answer.text();
                if (standing) return;
                figures.innerHTML = text;
                // Heard is only what has become another trouble, not every figure every few seconds.
                if (news && told(figures) !== heard) news.textContent = heard = told(figures);
                said.textContent = `${said.dataset.label} ${new Date().toLocaleTimeString()}`;
                figures.dataset.renewed = String(Number(figures.dataset.renewed || 0) + 1);
            } catch {
                said.textContent = said.dataset.failed;
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
