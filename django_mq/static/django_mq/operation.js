// Refreshes the progress of an operation until it ends, without moving the focus.
"use strict";

(() => {
    const SECONDS = 3;
    const PARTS = [".field-situation", ".field-progress", ".field-error"];

    const renew = async () => {
        if (document.hidden) return;
        const answer = await fetch(window.location.href, {credentials: "same-origin", redirect: "error"});
        if (!answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of PARTS) {
            const [old, fresh] = [document.querySelector(part), page.querySelector(part)];
            if (old && fresh && old.innerHTML !== fresh.innerHTML) old.innerHTML = fresh.innerHTML;
        }
        // It has ended and has other buttons.
        if (!page.getElementById("mq-running")) window.location.reload();
    };

    document.querySelector(".field-progress")?.setAttribute("aria-live", "polite");
    window.setInterval(() => renew().catch(() => {}), SECONDS * 1000);
})();
