// What another decision threshold would give, and what mistakes would cost there.
for (const tool of document.querySelectorAll(".threshold-tool")) {
  const points = JSON.parse(tool.dataset.points); // [threshold, tp, fp, fn, tn]
  const slider = tool.querySelector("input[type=range]");
  const [alarm, miss] = tool.querySelectorAll("input[type=number]");
  const put = (name, text) => { tool.querySelector(`[data-shows="${name}"]`).textContent = text; };
  const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "\u2013");
  const cost = ([, , fp, fn]) => fp * (Number(alarm.value) || 0) + fn * (Number(miss.value) || 0);
  const show = () => {
    const point = points[Number(slider.value)];
    const [threshold, tp, fp, fn, tn] = point;
    const total = tp + fp + fn + tn;
    put("threshold", threshold.toFixed(2));
    put("precision", share(tp, tp + fp));
    put("recall", share(tp, tp + fn));
    put("accuracy", share(tp + tn, total));
    put("alarms", String(fp));
    put("misses", String(fn));
    put("cost", ((1000 * cost(point)) / total).toFixed(0));
    slider.setAttribute("aria-valuetext", threshold.toFixed(2));
  };
  const cheapest = () => {
    let best = 0;
    points.forEach((point, place) => { if (cost(point) < cost(points[best])) best = place; });
    slider.value = String(best);
    show();
  };
  slider.addEventListener("input", show);
  alarm.addEventListener("input", show);
  miss.addEventListener("input", show);
  tool.querySelector("button").addEventListener("click", cheapest);
  show();
}
