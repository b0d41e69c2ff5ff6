// Robots that move along paths: a slider of time, and play.
"use strict";

const player = (() => {
  const { times, paths, places } = JSON.parse(document.getElementById("motion-data").textContent);
  const [slider, button, clock, rate, follow] = ["time", "play", "clock", "rate", "follow"].map((id) => document.getElementById(id));
  const { bodies } = view.scene, end = times[times.length - 1];
  const root = bodies.find((body) => body.parent < 0 && body.quaternion === 3);
  let now = 0, last = null, moving = false;

  // Return the positions of a path at a time, between two states.
  function at(path, time) {
    const next = times.findIndex((t) => t > time);
    if (next < 0) return path[path.length - 1];
    const k = Math.max(next, 1), part = (time - times[k - 1]) / (times[k] - times[k - 1]);
    const q = path[k - 1].map((v, i) => v + part * (path[k][i] - v));
    for (const body of bodies) {
      if (body.quaternion === null) continue;
      const first = body.q + body.quaternion, [a, b] = [path[k - 1], path[k]].map((of) => of.slice(first, first + 4));
      const sign = a.reduce((sum, v, i) => sum + v * b[i], 0) < 0 ? -1 : 1;
      const mixed = a.map((v, i) => (1 - part) * v + sign * part * b[i]), norm = Math.hypot(...mixed);
      mixed.forEach((v, i) => { q[first + i] = v / norm; });
    }
    return q;
  }
  const robots = (time) => paths.map((path, k) => ({ q: at(path, time), place: places[k] }));
  // Return how far the roots have moved over the ground, on average.
  function way(several) {
    const moved = (k) => several.reduce((sum, { q }, n) => sum + q[root.q + k] - paths[n][0][root.q + k], 0) / several.length;
    return root && follow.checked ? [moved(0), moved(1), 0] : [0, 0, 0];
  }
  function show(time) {
    now = time;
    slider.value = time;
    clock.textContent = `${time.toFixed(2)} s`;
    const several = robots(time);
    view.stage(several, way(several));
  }
  function fit() {
    view.begin(Array.from({ length: 9 }, (_, k) => robots(end * k / 8)).flatMap((several) => {
      const by = way(several);
      return several.map(({ q, place }) => ({ q, place: place.map((v, k) => v - by[k]) }));
    }));
    show(now);
  }
  function step(stamp) {
    if (!moving) return;
    now += (stamp - (last ?? stamp)) / 1000 * Number(rate.value);
    last = stamp;
    show(end > 0 ? now % end : 0);
    requestAnimationFrame(step);
  }
  function play(moves) {
    [moving, last] = [moves, null];
    button.textContent = moves ? "Pause" : "Play";
    if (moves) requestAnimationFrame(step);
  }
  slider.max = end;
  button.addEventListener("click", () => play(!moving));
  slider.addEventListener("input", () => { play(false); show(slider.valueAsNumber); });
  follow.addEventListener("change", fit);
  follow.disabled = !root;
  if (!view.scene.solids.some(({ of }) => of === "collision")) document.getElementById("skeleton").checked = true;
  fit();
  return { show, play, get now() { return now; } };
})();
