// A key opens the link, or goes to the field, whose attribute data-mq-key names it.
"use strict";

(() => {
    // WCAG 2.1.4: keys of one character can be switched off.
    const OFF = "django_mq.keys.off";
    const isOff = () => window.localStorage.getItem(OFF) === "1";
    const writes = (element) => element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);

    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || writes(event.target) || isOff()) return;
        const found = [...document.querySelectorAll("[data-mq-key]")].find((one) => one.dataset.mqKey === event.key);
        if (!found) return;
        event.preventDefault();
        if (found.tagName === "A") found.click();
        else found.focus();
    });

    document.addEventListener("DOMContentLoaded", () => {
        for (const button of document.querySelectorAll("[data-mq-keys-switch]")) {
            const show = () => button.setAttribute("aria-pressed", String(!isOff()));
            button.hidden = false;
            button.addEventListener("click", () => {
                if (isOff()) window.localStorage.removeItem(OFF);
                else window.localStorage.setItem(OFF, "1");
                show();
            });
            show();
        }
    });
})();
