// A figure carries what it shows in words, "alt" in its metadata, and what must not change its colours in a dark theme,
// "kept"; JupyterLab leaves both out. These are JupyterLab's own renderers of pictures, which then put the words into the
// page and hand the picture to dark.js; a picture without either stays as it is.
//
// A prebuilt extension written by hand, so that nothing is built: JupyterLab hands `init` the modules that it shares,
// and asks `get` for what package.json names.
(() => {
  // The list of files is as wide as the longest name of a notebook, where the window leaves room for both.
  const WIDE = "@media (min-width: 1200px) { #jp-left-stack { --jp-sidebar-min-width: 330px; } }";
  // A line of output breaks between words, where JupyterLab breaks it at any letter.
  const WORDS = "body .jp-OutputArea-output pre { word-break: normal; overflow-wrap: anywhere; }";
  // In a notebook that somebody else ran, JupyterLab leaves of a scripted picture nothing but its words.
  const BARE = ".jp-OutputArea-output .picture:not(:has(svg))";
  const ASK = `${BARE} { font-size: 0; filter: none; mix-blend-mode: normal; }
    ${BARE}::before { font-size: 14px; content: "Run this cell to see its picture."; }`;
  const dark = new URL("dark.js", document.currentScript.src);
  let shared;

  function asAFigure(factory) {
    const createRenderer = (options) => {
      const renderer = factory.createRenderer(options), render = renderer.render;
      renderer.render = async function (model) {
        await render.call(this, model);
        const { alt, kept } = model.metadata[options.mimeType] ?? {};
        const picture = this.node.querySelector("img");
        if (picture && typeof alt === "string") picture.alt = alt;
        if (picture && Array.isArray(kept)) window.courseFigures?.keep(picture, kept);
      };
      return renderer;
    };
    return { ...factory, createRenderer };
  }

  // Pictures in HTML, such as the folded output of many ranks, say it themselves.
  function withFigures(factory) {
    const createRenderer = (options) => {
      const renderer = factory.createRenderer(options), render = renderer.render;
      renderer.render = async function (model) {
        await render.call(this, model);
        for (const picture of this.node.querySelectorAll("img[data-kept]:not(.course-figure)"))
          window.courseFigures?.keep(picture, JSON.parse(picture.dataset.kept));
      };
      return renderer;
    };
    return { ...factory, createRenderer };
  }

  const loaded = (src) => new Promise((resolve) => {
    document.head.append(Object.assign(document.createElement("script"), { src, onload: resolve, onerror: resolve }));
  });

  async function get() {
    document.head.append(Object.assign(document.createElement("style"), { textContent: WIDE + WORDS + ASK }));
    await loaded(dark);
    const [version] = Object.values(shared["@jupyterlab/rendermime"]);
    const { htmlRendererFactory, imageRendererFactory, svgRendererFactory } = (await version.get())();
    // Of two renderers of one kind the later counts; the rank says which kind of an output is shown, and stays.
    const factories = [...[imageRendererFactory, svgRendererFactory].map(asAFigure), withFigures(htmlRendererFactory)];
    const renderers = factories.map((factory) => ({
      id: "course-figures:" + factory.mimeTypes[0],
      rank: factory.defaultRank,
      dataType: "string",
      rendererFactory: factory,
    }));
    return () => ({ __esModule: true, default: renderers });
  }

  (window._JUPYTERLAB ??= {})["course-figures"] = { init: (scope) => { shared = scope; }, get };
})();
