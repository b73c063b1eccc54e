// What the theme leaves without a name or out of reach of the keyboard.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
const mend = () => {
  document.querySelectorAll("nav.md-code__nav").forEach((buttons, number) => {
    buttons.setAttribute("aria-label", `Code ${number + 1}`);
  });
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    table.tabIndex = 0;
  }
};
mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
