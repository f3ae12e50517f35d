// A key opens the link, or goes to the field, whose attribute data-mq-key names it. In a list, j and k go to the next
// and the previous row. A question mark shows the keys.
"use strict";

(() => {
    // WCAG 2.1.4: keys of one character can be switched off.
    const OFF = "django_mq.keys.off";
    const ROWS = "#result_list tbody th a, .mq-found tbody a[href]";
    const STEPS = {j: 1, k: -1};
    const isOff = () => window.localStorage.getItem(OFF) === "1";
    const writes = (element) => element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)
        && !/^(checkbox|radio|button|submit)$/.test(element.type);
    const help = () => document.getElementById("mq-keys");

    // Returns whether there is a row to go to.
    const step = (by) => {
        const rows = [...document.querySelectorAll(ROWS)].filter((row) => row.offsetParent);
        const here = rows.findIndex((row) => row.closest("tr").contains(document.activeElement));
        const next = rows[here < 0 ? (by > 0 ? 0 : rows.length - 1) : here + by];
        if (next) next.focus();
        return Boolean(next);
    };

    const pressed = (key) => {
        const found = [...document.querySelectorAll("[data-mq-key]")].find((one) => one.dataset.mqKey === key);
        if (!found) return key in STEPS && step(STEPS[key]);
        if (found.tagName === "INPUT") found.focus();
        else found.click();
        return true;
    };

    document.addEventListener("keydown", (event) => {
        const taken = event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || help()?.open;
        if (taken || writes(event.target) || isOff()) return;
        if (pressed(event.key)) event.preventDefault();
    });

    const start = () => {
        for (const button of document.querySelectorAll("[data-mq-keys-help]")) {
            button.hidden = false;
            button.addEventListener("click", () => help().showModal());
        }
        for (const box of document.querySelectorAll("[data-mq-keys-switch]")) {
            box.checked = !isOff();
            box.addEventListener("change", () => {
                if (box.checked) window.localStorage.removeItem(OFF);
                else window.localStorage.setItem(OFF, "1");
            });
        }
    };
    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", start);
    } else {
        start();
    }
})();
