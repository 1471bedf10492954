// Search on pages that are opened as files, where browsers start no workers: the worker's script
// runs in a hidden frame instead. The theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #loaded;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      // What the script sends is for the page.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => Promise.all(urls.map((other) => this.#load(other)));
      this.#loaded = this.#load(url);
    }

    #load(url) {
      return new Promise((resolve, reject) => {
        const script = this.#frame.contentDocument.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        this.#frame.contentDocument.body.append(script);
      });
    }

    postMessage(data) {
      this.#loaded.then(() =>
        this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
