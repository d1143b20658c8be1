// A figure carries what it shows in words, "alt" in its metadata, and JupyterLab leaves them out. These are JupyterLab's
// own renderers of pictures, which then put the words into the page; a picture without words stays as it is.
//
// A prebuilt extension written by hand, so that nothing is built: JupyterLab hands `init` the modules that it shares,
// and asks `get` for what package.json names.
(() => {
  let shared;

  function withWords(factory) {
    const createRenderer = (options) => {
      const renderer = factory.createRenderer(options), render = renderer.render;
      renderer.render = async function (model) {
        await render.call(this, model);
        const alt = model.metadata[options.mimeType]?.alt;
        const picture = this.node.querySelector("img");
        if (picture && typeof alt === "string") picture.alt = alt;
      };
      return renderer;
    };
    return { ...factory, createRenderer };
  }

  async function get() {
    const [version] = Object.values(shared["@jupyterlab/rendermime"]);
    const { imageRendererFactory, svgRendererFactory } = (await version.get())();
    // Of two renderers of one kind the later counts; the rank says which kind of an output is shown, and stays.
    const renderers = [imageRendererFactory, svgRendererFactory].map((factory) => ({
      id: "course-alt-text:" + factory.mimeTypes[0],
      rank: factory.defaultRank,
      dataType: "string",
      rendererFactory: withWords(factory),
    }));
    return () => ({ __esModule: true, default: renderers });
  }

  (window._JUPYTERLAB ??= {})["course-alt-text"] = { init: (scope) => { shared = scope; }, get };
})();
