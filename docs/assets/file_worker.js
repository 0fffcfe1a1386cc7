// Browsers start no worker for a page that was opened from the disk. The search needs one.
// For such pages a hidden frame takes its place: it runs the worker's script and passes messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.documentElement.append(frame);
      const inner = frame.contentWindow;
      this.inner = inner;
      inner.document.open();
      inner.document.write("<!doctype html><title>search</title>");
      inner.document.close();
      // What the script posts goes to the page; what the page posts is an event inside the frame.
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = () => {};
      const script = inner.document.createElement("script");
      script.src = url;
      script.onload = () => {
        this.waiting.forEach((data) => this.deliver(data));
        this.waiting = null;
      };
      inner.document.body.append(script);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }
    deliver(data) {
      this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }
  };
}
