// Offers headers and arguments of the newest messages while one types in the search of the message list.
"use strict";

(() => {
    const ADDRESS = "suggestions.json";

    const start = () => {
        const field = document.getElementById("searchbar");
        if (!field || field.hasAttribute("list") || !document.body.classList.contains("model-message")) return;

        const offer = async () => {
            const answer = await fetch(ADDRESS, {credentials: "same-origin", redirect: "error"});
            if (!answer.ok) return;
            const list = document.createElement("datalist");
            list.id = "mq-suggestions";
            for (const term of (await answer.json()).suggestions) {
                const option = document.createElement("option");
                option.value = term;
                list.append(option);
            }
            field.after(list);
            field.setAttribute("list", list.id);
        };

        // Without them one searches as well.
        field.addEventListener("focus", () => offer().catch(() => {}), {once: true});
        if (document.activeElement === field) field.dispatchEvent(new Event("focus"));
    };

    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", start);
    } else {
        start();
    }
})();
