// What the theme leaves without a name, out of reach of the keyboard, or too pale.
const places = new CSSStyleSheet();
places.replaceSync('[id$="-path"] { color: inherit; }');
const mend = () => {
  document.querySelectorAll("nav.md-code__nav").forEach((buttons, number) => {
    buttons.setAttribute("aria-label", `Code ${number + 1}`);
  });
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    table.tabIndex = 0;
  }
  for (const { shadowRoot } of document.body.children) {
    if (shadowRoot) shadowRoot.adoptedStyleSheets = [places]; // of the search results
  }
};
mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
