// Writes the name of its column beside each cell of a table: on a phone a row is a card, and no column is out of sight.
"use strict";

(() => {
    const TABLES = "#result_list, .mq-table:not(.mq-found) table, .inline-group table";

    // The names of the columns, each with what stands above it.
    const names = (table) => {
        const found = [];
        [...table.tHead.rows].forEach((row, level) => {
            let place = 0;
            for (const head of row.cells) {
                while (found[place] && found[place].until > level) place += 1;
                const text = (head.querySelector(".text") || head).textContent.replace(/\s+/g, " ").trim();
                for (let column = 0; column < head.colSpan; column += 1, place += 1) {
                    const above = found[place] ? `${found[place].text}, ` : "";
                    found[place] = {text: above + text, until: level + head.rowSpan};
                }
            }
        });
        return found.map(({text}) => text);
    };

    const label = (table) => {
        if (!table.tHead) return;
        const columns = names(table);
        for (const row of table.querySelectorAll("tbody tr, tfoot tr")) {
            [...row.cells].forEach((cell, place) => {
                const name = cell.matches(".action-checkbox, [colspan]") ? "" : columns[place] || "";
                if (cell.dataset.label !== name) cell.dataset.label = name;
            });
        }
        table.classList.add("mq-cards");
    };

    const start = () => {
        const content = document.getElementById("content");
        if (!content) return;
        const all = () => content.querySelectorAll(TABLES).forEach(label);
        all();
        new MutationObserver(all).observe(content, {childList: true, subtree: true});
    };
    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", start);
    } else {
        start();
    }
})();
