// Tables and commands that are wider than the page can be scrolled by keyboard.
addEventListener("load", () => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    wide.tabIndex = 0;
  }
  document.documentElement.dataset.ready = "true";
});
