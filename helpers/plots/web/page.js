// Starts every picture of one kind that stands in the page and has not begun. Each output carries this text, since each
// must work alone; the modules within it run for the first of them only.
(() => {
  const pictures = (window.coursePictures ??= { kinds: {}, begun: new WeakSet(), keys: false });
  const begin = (pictures.kinds["/* KIND */"] ??= (() => {
    "use strict";
/* MODULES */
    return start;
  })());
  if (!pictures.keys) {
    // JupyterLab takes keys before an output hears them: it leaves these to the picture that has the focus.
    const own = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown", "Enter", " "];
    pictures.keys = true;
    window.addEventListener("keydown", (event) => {
      const picture = event.target.closest && event.target.closest(".picture");
      const plain = !(event.shiftKey || event.ctrlKey || event.altKey || event.metaKey);
      if (picture) picture.toggleAttribute("data-lm-suppress-shortcuts", plain && own.includes(event.key));
    }, true);
  }
  for (const root of document.querySelectorAll('[data-picture="/* KIND */"]')) {
    if (pictures.begun.has(root)) continue;
    pictures.begun.add(root);
    begin(root, JSON.parse(root.dataset.values));
  }
})();
