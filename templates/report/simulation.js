// The robot's step in WebAssembly, in real time. Springs hold the joints where the sliders are; dragging a
// joint or a link pushes it.
"use strict";

const simulation = (async () => {
  const { arrays, dt, springs, push, floor, falls, code } = JSON.parse(document.getElementById("simulation-data").textContent);
  const bytes = Uint8Array.from(atob(code), (letter) => letter.charCodeAt(0));
  const { exports } = (await WebAssembly.instantiate(bytes)).instance;

  // The arrays of a step in its memory, and the table of their addresses and strides.
  const table = (exports.__heap_base.value + 15) & ~15, size = (values) => Math.max(values.length, 1) * 8;
  let end = table + 24 * arrays.length;
  const missing = end + arrays.reduce((sum, { values }) => sum + size(values), 0) - exports.memory.buffer.byteLength;
  if (missing > 0) exports.memory.grow(Math.ceil(missing / 65536));
  const words = new DataView(exports.memory.buffer), x = {};
  arrays.forEach(({ name, values }, k) => {
    words.setUint32(table + 24 * k, end, true);
    words.setBigInt64(table + 24 * k + 8, BigInt(values.length), true);
    words.setBigInt64(table + 24 * k + 16, 1n, true);
    x[name] = new Float64Array(exports.memory.buffer, end, values.length);
    x[name].set(values);
    end += size(values);
  });
  // The first free joint: three positions before its quaternion.
  const base = view.scene.bodies.findIndex((body) => body.quaternion === 3);
  if (falls) x.q[view.scene.bodies[base].q + 2] -= view.lowest() - 0.005;
  const start = { q: x.q.slice(), qd: x.qd.slice() };
  // Advance the state by one step.
  const step = () => {
    exports.gridgen_entry(table);
    x.q.set(x.q_next);
    x.qd.set(x.qd_next);
  };

  const stiffness = document.getElementById("stiffness"), running = document.getElementById("running");
  const report = document.getElementById("rate"), canvas = document.getElementById("scene");
  // Critically damped springs: gains are the inertia of the joint times w^2 and 2 w [rad/s].
  const hold = () => {
    const w = stiffness.valueAsNumber;
    springs.forEach(({ q, v, inertia, effort }) => {
      const torque = inertia * w * (w * (view.q[q] - x.q[q]) - 2 * x.qd[v]);
      x.tau[v] = Math.max(-effort, Math.min(effort, torque));
    });
  };
  let pushed = null;
  const follow = base < 0 ? undefined : (poses) => poses.bodies[base][1];
  // The point where the pointer holds the robot, in the axes of the link.
  const grip = ({ dot }) => {
    const frames = view.scene.frames, isLink = dot < frames.length;
    const body = isLink ? frames[dot].body : dot - frames.length;
    return { body, at: (isLink ? view.poses.frames[dot] : view.poses.bodies[body])[1] };
  };
  // A wrench is at the origin of the body's link and in its axes.
  const pull = () => {
    x.f_ext.fill(0);
    if (!pushed) return;
    const { body, at } = grip(pushed), [right, up] = view.axes;
    if (body < 0) return;
    const force = right.map((v, k) => push * (v * pushed.by[0] - up[k] * pushed.by[1]) / canvas.clientHeight);
    const [R, p] = view.poses.frames[view.scene.frames.findIndex(({ name }) => name === view.scene.bodies[body].link)];
    const r = at.map((v, k) => v - p[k]);
    const moment = [0, 1, 2].map((k) => r[(k + 1) % 3] * force[(k + 2) % 3] - r[(k + 2) % 3] * force[(k + 1) % 3]);
    [force, moment].forEach((vector, n) => [0, 1, 2].forEach((k) => {
      x.f_ext[6 * body + 3 * n + k] = R.reduce((sum, row, i) => sum + row[k] * vector[i], 0);
    }));
  };
  const reset = () => {
    x.q.set(start.q);
    x.qd.set(start.qd);
  };

  view.below.push(({ seen, line, quiet }) => {
    const center = follow ? follow(view.poses) : [0, 0, 0], cell = view.size / 2;
    if (floor !== null) for (let k = -4; k <= 4; ++k) for (const axis of [0, 1]) {
      const [from, to] = [-4, 4].map((side) => {
        const corner = [0, 0, floor];
        corner[axis] = (Math.round(center[axis] / cell) + k) * cell;
        corner[1 - axis] = (Math.round(center[1 - axis] / cell) + side) * cell;
        return seen(corner);
      });
      line(from, to, quiet, 0.4);
    }
    if (!pushed) return;
    const from = seen(grip(pushed).at);
    line(from, from.slice(0, 2).map((v, k) => v + pushed.by[k]), "crimson", 3);
  });

  const stop = (event) => { event.stopImmediatePropagation(); };
  canvas.addEventListener("pointerdown", (event) => {
    const dot = view.near(event.offsetX, event.offsetY);
    if (dot === undefined) return;
    canvas.setPointerCapture(event.pointerId);
    pushed = { id: event.pointerId, dot, from: [event.clientX, event.clientY], by: [0, 0] };
    stop(event);
  }, true);
  canvas.addEventListener("pointermove", (event) => {
    if (pushed?.id !== event.pointerId) return;
    pushed.by = [event.clientX - pushed.from[0], event.clientY - pushed.from[1]];
    stop(event);
  }, true);
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => { if (pushed?.id === event.pointerId) pushed = null; }, true);
  }
  document.getElementById("reset").addEventListener("click", reset);

  // A slow machine simulates slower than real time, so that the page still answers.
  let last = performance.now(), owed = 0, steps = 0, spent = 0;
  const frame = (now) => {
    owed = Math.min(owed + (running.checked ? now - last : 0), 50);
    last = now;
    const begin = performance.now();
    pull();
    for (; owed >= 1e3 * dt && performance.now() - begin < 12; owed -= 1e3 * dt, ++steps) {
      hold();
      step();
    }
    spent += performance.now() - begin;
    if (x.q.some((v) => !Number.isFinite(v))) reset();
    view.show(x.q, follow);
    if (steps >= 200 && spent > 0) {
      report.textContent = `${Math.round(1e3 * steps / spent)} steps per second`;
      steps = spent = 0;
    }
    requestAnimationFrame(frame);
  };
  view.show(x.q, follow);
  requestAnimationFrame(frame);
  return { x, step, hold, pull, reset };
})();
