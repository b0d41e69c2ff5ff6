// The skeleton: turned by dragging, zoomed by scrolling or two fingers; z is up.
(() => {
  "use strict";
  const { bodies, frames } = JSON.parse(document.getElementById("scene-data").textContent);
  const canvas = document.getElementById("scene"), pointed = document.getElementById("pointed");
  const pen = canvas.getContext("2d");
  const points = [[0, 0, 0], ...bodies.map((b) => b.at), ...frames.map((f) => f.at), ...bodies.map((b) => b.center)];
  const low = [0, 1, 2].map((k) => Math.min(...points.map((p) => p[k])));
  const high = [0, 1, 2].map((k) => Math.max(...points.map((p) => p[k])));
  const middle = low.map((v, k) => (v + high[k]) / 2);
  const size = Math.max(Math.hypot(...low.map((v, k) => high[k] - v)), 1e-6);
  const heaviest = Math.max(...bodies.map((b) => b.mass), 1e-12);
  let yaw = 0.7, pitch = 0.35, zoom = 1, dots = [];
  const fingers = new Map();

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const seen = (p) => {
    const [x, y, z] = p.map((v, k) => (v - middle[k]) / size);
    const a = x * Math.cos(yaw) - y * Math.sin(yaw), b = x * Math.sin(yaw) + y * Math.cos(yaw);
    const depth = b * Math.cos(pitch) - z * Math.sin(pitch), up = b * Math.sin(pitch) + z * Math.cos(pitch);
    const scale = (zoom * 0.95 * Math.min(canvas.clientWidth, canvas.clientHeight)) / (1 + 0.35 * depth);
    return [canvas.clientWidth / 2 + a * scale, canvas.clientHeight / 2 - up * scale, scale];
  };
  const line = (from, to, style, width) => {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.beginPath();
    pen.moveTo(from[0], from[1]);
    pen.lineTo(to[0], to[1]);
    pen.stroke();
  };
  const dot = (at, radius, style, filled = true) => {
    pen.beginPath();
    pen.arc(at[0], at[1], radius, 0, 2 * Math.PI);
    pen.fillStyle = pen.strokeStyle = style;
    pen.lineWidth = 1.5;
    filled ? pen.fill() : pen.stroke();
  };

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const quiet = color("quiet"), ink = color("ink");
    dots = [];
    [["x", 0, "bad"], ["y", 1, "good"], ["z", 2, "revolute"]].forEach(([label, k, style]) => {
      const tip = [0, 0, 0];
      tip[k] = 0.12 * size;
      const end = seen(tip);
      line(seen([0, 0, 0]), end, color(style), 1.5);
      pen.fillStyle = color(style);
      pen.fillText(label, end[0] + 3, end[1]);
    });
    for (const frame of frames) {
      const at = seen(frame.at), from = frame.body < 0 ? [0, 0, 0] : bodies[frame.body].at;
      line(seen(from), at, quiet, 0.75);
      dot(at, 1.5, quiet);
      dots.push([at, frame.name]);
    }
    for (const body of bodies) {
      line(seen(body.parent < 0 ? [0, 0, 0] : bodies[body.parent].at), seen(body.at), ink, 2.5);
    }
    for (const body of bodies) {
      const at = seen(body.at), reach = 0.035 * size;
      const [from, to] = [-1, 1].map((s) => seen(body.at.map((v, k) => v + s * reach * body.axis[k])));
      if (body.kind !== "free") line(from, to, color(body.kind), 3);
      dot(at, 4, color(body.kind));
      dots.push([at, `${body.joint} (${body.kind}), ${body.link}, ${body.mass.toPrecision(3)} kg`]);
      if (body.mass > 0) dot(seen(body.center), 2 + 9 * Math.cbrt(body.mass / heaviest), quiet, false);
    }
  }
  function point(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const near = dots.map(([at, name]) => [Math.hypot(at[0] - x, at[1] - y), name]).filter(([d]) => d < 10);
    near.sort((a, b) => a[0] - b[0]);
    pointed.textContent = near.length ? near[0][1] : "";
  }
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return point(event);
    const now = [event.clientX, event.clientY];
    if (fingers.size === 2) {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const spread = (at) => Math.max(1, Math.hypot(at[0] - other[0], at[1] - other[1]));
      zoom *= spread(now) / spread(last);
    } else {
      yaw += (now[0] - last[0]) * 0.01;
      pitch = Math.max(-1.5, Math.min(1.5, pitch + (now[1] - last[1]) * 0.01));
    }
    fingers.set(event.pointerId, now);
    draw();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom *= Math.exp(-0.001 * event.deltaY);
    draw();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const turns = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
    if (!(event.key in turns)) return;
    event.preventDefault();
    yaw += turns[event.key][0];
    pitch += turns[event.key][1];
    draw();
  });
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
