// JupyterLab prefers a widget to the picture stored beside it. In a saved notebook the widget's model has ended
// with its kernel, and JupyterLab would show "model not found". This extension then shows the stored picture.
// It is written as JupyterLab loads it (module federation), so that no build step is needed.
(() => {
  const WIDGET = "application/vnd.jupyter.widget-view+json";
  const WIDGET_RANK = -10; // as ipywidgets registers its renderer
  const LOST = "Error displaying widget: model not found";
  const LOADING = "Loading widget...";
  const PATIENCE = 1000; // milliseconds for a model to arrive; without a kernel none does

  let shared; // modules that JupyterLab and other extensions share
  const load = async (name) => {
    const [version] = Object.values(shared[name]);
    return (await version.get())();
  };

  const isLost = ({ node, widgets }) => widgets.length === 0 && [LOST, LOADING].includes(node.textContent);

  /** What is stored beside the widget's view, drawn; null if that is only text. */
  async function drawStored(rendermime, model) {
    const { [WIDGET]: view, ...stored } = model.data;
    const type = rendermime.preferredMimeType(stored, "any");
    if (type === undefined || type === "text/plain") return null;
    const picture = rendermime.createRenderer(type);
    await picture.renderModel(model);
    return picture;
  }

  /** The same renderer, which shows the stored picture where the widget has no model. */
  function withStored(rendermime, renderer) {
    const renderWidget = renderer.renderModel.bind(renderer);
    renderer.renderModel = async (model) => {
      let drawing = null;
      const show = async () => {
        if (!isLost(renderer)) return;
        drawing ??= drawStored(rendermime, model);
        const picture = await drawing;
        if (picture !== null && isLost(renderer)) renderer.node.replaceChildren(picture.node);
      };
      const timer = setTimeout(show, PATIENCE);
      await renderWidget(model);
      clearTimeout(timer);
      await show(); // again, where the message has replaced the picture
      if (renderer.widgets.length > 0) (await drawing)?.dispose();
    };
    return renderer;
  }

  const wrapped = new WeakSet();
  function wrap(rendermime) {
    const factory = rendermime.getFactory(WIDGET);
    if (factory === undefined || wrapped.has(factory)) return;
    const createRenderer = (options) => withStored(rendermime, factory.createRenderer(options));
    const ours = { ...factory, mimeTypes: [WIDGET], createRenderer };
    wrapped.add(ours);
    rendermime.removeMimeType(WIDGET);
    rendermime.addFactory(ours, WIDGET_RANK);
  }

  async function activate(app, rendermime, tracker) {
    wrap(rendermime); // each notebook's registry begins as a copy
    const follow = async ({ content, sessionContext }) => {
      await sessionContext.ready;
      setTimeout(() => wrap(content.rendermime)); // after ipywidgets has registered a renderer of this notebook
    };
    tracker.forEach(follow);
    tracker.widgetAdded.connect((_, panel) => follow(panel));
  }

  async function plugins() {
    if (!("@jupyter-widgets/base" in shared)) return []; // no widgets, nothing to replace
    const { INotebookTracker } = await load("@jupyterlab/notebook");
    const { IRenderMimeRegistry } = await load("@jupyterlab/rendermime");
    const { IJupyterWidgetRegistry } = await load("@jupyter-widgets/base");
    const requires = [IRenderMimeRegistry, INotebookTracker, IJupyterWidgetRegistry];
    return [{ id: "embviz:stored-pictures", autoStart: true, requires, activate }];
  }

  globalThis._JUPYTERLAB ??= {};
  globalThis._JUPYTERLAB.embviz = {
    init: (scope) => {
      shared = scope;
    },
    get: async () => {
      const found = await plugins();
      return () => ({ __esModule: true, default: found });
    },
  };
})();
