// A figure in a dark theme is dark: ink on paper becomes light on black, for JupyterLab and for the site.
//
// Only pictures that say so: what carries the class "course-figure", and our scripted pictures. A photograph in a figure
// stays as it is: `keep` lays these parts of the picture over it, as they were drawn.
(() => {
  // A colour of luminance L becomes the same hue of luminance 0.0525 / (L + 0.05) - 0.05, and WCAG's contrast of any two
  // colours stays what it was: white becomes black, black white. Above HALF a colour is made darker by a factor, below it
  // lighter by a sum and by BRIGHTER. The palette's orange and sky, which would be dull, have the 4.6 to 1 of LINES: as
  // bright as they can be with white text on them.
  const HALF = Math.sqrt(0.0525) - 0.05, LINES = 0.18, BRIGHTER = 1.12;
  const opposite = (L) => {
    const exact = 0.0525 / ((L > HALF && L < 0.186 ? HALF : L) + 0.05) - 0.05; // 0.186: text on white, rounded, ends here
    return L < HALF ? Math.min(1, BRIGHTER * exact) : Math.max(exact, LINES * Math.min(1, (0.62 - L) / 0.18));
  };
  const less = table((L) => (L < HALF ? 1 : opposite(L) / L)), more = table((L) => (L < HALF ? opposite(L) - L : 0));
  // 256 levels, as a filter has; those that text may have are rounded up
  function table(of) {
    const rounded = (L) => Math.min(255, Math.round(255 * of(L) + (L < 0.2 && of(L) ? 0.49 : 0))) / 255;
    return Array.from({ length: 256 }, (_, k) => rounded(k / 255).toFixed(4)).join(" ");
  }
  const each = (values) => ["R", "G", "B"].map((part) => `<feFunc${part} type="table" tableValues="${values}"/>`).join("");
  const ROW = "0.2126 0.7152 0.0722 0 0 ";
  const FILTER = `<filter id="course-dark" x="0" y="0" width="1" height="1" color-interpolation-filters="linearRGB">
    <feColorMatrix values="${ROW}${ROW}${ROW}0 0 0 1 0" result="L"/>
    <feComponentTransfer in="L" result="less">${each(less)}</feComponentTransfer>
    <feComponentTransfer in="L" result="more">${each(more)}</feComponentTransfer>
    <feComposite in="SourceGraphic" in2="less" operator="arithmetic" k1="1" result="darker"/>
    <feComposite in="darker" in2="more" operator="arithmetic" k2="1" k3="1"/></filter>`;
  const DARK = "--course-dark: url(#course-dark); --course-kept: block; --course-blend: screen;";
  const STYLE = `
    @media screen {
      body[data-jp-theme-light="false"], body[data-theme="dark"] { ${DARK} }
    }
    @media screen and (prefers-color-scheme: dark) {
      body[data-theme="auto"] { ${DARK} }
    }
    /* Black takes the page's colour: a figure is no slab. */
    .course-figure, .picture { filter: var(--course-dark, none); mix-blend-mode: var(--course-blend, normal); }
    .course-whole { display: inline-block; position: relative; max-width: 100%; }
    .course-whole > img { display: block; }  /* no gap for letters' tails below it, over which kept parts would stretch */
    .course-whole > .course-kept { display: var(--course-kept, none); position: absolute; inset: 0; background-size: 100% 100%; }`;

  // Show parts of a picture as they are, each [left, top, right, bottom] from 0 to 1.
  function keep(picture, parts) {
    picture.classList.add("course-figure");
    if (!parts.length) return;
    const whole = document.createElement("span");
    whole.className = "course-whole";
    picture.replaceWith(whole);
    whole.append(picture);
    for (const [left, top, right, bottom] of parts) {
      const part = document.createElement("span");
      part.className = "course-kept";
      part.style.backgroundImage = `url("${picture.src}")`;
      part.style.clipPath = `inset(${[top, 1 - right, 1 - bottom, left].map((share) => `${100 * share}%`).join(" ")})`;
      whole.append(part);
    }
  }

  document.head.append(Object.assign(document.createElement("style"), { textContent: STYLE }));
  const place = document.createElement("div");
  place.innerHTML = `<svg width="0" height="0" style="position: absolute" aria-hidden="true">${FILTER}</svg>`;
  document.body.append(place.firstChild);
  for (const picture of document.querySelectorAll("img[data-kept]")) keep(picture, JSON.parse(picture.dataset.kept));
  window.courseFigures = { keep };
})();
