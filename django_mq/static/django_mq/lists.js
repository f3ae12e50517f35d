// Writes the name of its column beside each cell of a list: on a phone a row is a card, and no column is out of sight.
"use strict";

(() => {
    const label = (list) => {
        const names = [...list.querySelectorAll("thead th")].map((head) =>
            (head.querySelector(".text") || head).textContent.replace(/\s+/g, " ").trim());
        for (const row of list.querySelectorAll("tbody tr")) {
            [...row.cells].forEach((cell, place) => {
                if (!cell.matches(".action-checkbox")) cell.dataset.label = names[place] || "";
            });
        }
        list.classList.add("mq-cards");
    };

    const start = () => {
        const list = document.getElementById("result_list");
        if (!list) return;
        label(list);
        new MutationObserver(() => label(list)).observe(list, {childList: true, subtree: true});
    };
    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", start);
    } else {
        start();
    }
})();
