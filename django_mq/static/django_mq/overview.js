// Renews the figures of the overview every few seconds, unless told to stand still or nobody looks.
"use strict";

(() => {
    const SECONDS = 5;

    const start = () => {
        const figures = document.getElementById("mq-figures");
        const button = document.getElementById("mq-pause");
        const said = document.getElementById("mq-refreshed");
        if (!figures || !button || !said) return;
        let standing = false;

        const address = new URL(window.location.href);
        address.searchParams.set("part", "1");

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
