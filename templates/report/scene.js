// The robot on a canvas: sliders move its joints, dragging turns the view; z is up.
"use strict";

// Return the poses [rotation, translation] of bodies and frames in the base frame.
function forwardKinematics({ bodies, frames }, q) {
  const BASE = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 0]];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const times = ([R, p], [S, x]) => [
    R.map((row) => [0, 1, 2].map((k) => dot(row, S.map((column) => column[k])))),
    p.map((v, k) => v + dot(R[k], x)),
  ];
  const motion = (body) => {
    if (body.quaternion !== null) {
      const [x, y, z] = [0, 1, 2].map((k) => k < body.quaternion ? q[body.q + k] : 0);
      const [a, b, c, d] = q.slice(body.q + body.quaternion);
      return [[
        [1 - 2 * (b * b + c * c), 2 * (a * b - c * d), 2 * (a * c + b * d)],
        [2 * (a * b + c * d), 1 - 2 * (a * a + c * c), 2 * (b * c - a * d)],
        [2 * (a * c - b * d), 2 * (b * c + a * d), 1 - 2 * (a * a + b * b)],
      ], [x, y, z]];
    }
    const position = body.multiplier * q[body.q] + body.offset;
    const c = Math.cos(body.turn * position), s = Math.sin(body.turn * position);
    return [[[c, -s, 0], [s, c, 0], [0, 0, 1]], [0, 0, body.slide * position]];
  };
  const poses = [];
  for (const body of bodies) poses.push(times(times(poses[body.parent] ?? BASE, body.place), motion(body)));
  return { bodies: poses, frames: frames.map((frame) => times(poses[frame.body] ?? BASE, frame.place)) };
}

// Other scripts read the joint positions that sliders set, the poses and the dot near a point of the canvas
// from `view`, show other positions, and paint below the robot. With `start` in its data the sliders begin
// there, and free and ball joints have none.
const view = (() => {
  const scene = JSON.parse(document.getElementById("scene-data").textContent);
  const { bodies, frames, solids } = scene;
  const canvas = document.getElementById("scene"), label = document.getElementById("label");
  const rows = document.getElementById("sliders"), pen = canvas.getContext("2d");
  const q = scene.start ? [...scene.start] : Array(scene.nq).fill(0);
  if (!scene.start) bodies.forEach((body) => { if (body.quaternion !== null) q[body.q + body.quaternion + 3] = 1; });
  let poses = forwardKinematics(scene, q), yaw = 0.7, pitch = 0.3, zoom = 1, fitted = 1, hovered = NaN, dots = [];
  // The robots that are drawn, by their positions and the places of their roots; that of `poses`; the ground, and how
  // far the view has moved with them.
  let robots = [{ q, place: [0, 0, 0] }], place = [0, 0, 0], ground = false;
  const pose = (robot) => { poses = forwardKinematics(scene, robot.q); place = robot.place; };
  const below = [], shift = [0, 0, 0];
  const fingers = new Map(), sliders = [];

  const placed = (body, at) => {
    const [R, p] = poses.bodies[body] ?? [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 0]];
    return [R.map((row) => row[0] * at[0] + row[1] * at[1] + row[2] * at[2]), p.map((v, k) => v + place[k])];
  };
  const point = (body, at) => { const [v, p] = placed(body, at); return v.map((x, k) => x + p[k]); };
  let points, middle, size;
  // Place the view so that robots are in it.
  function bound(several) {
    points = several.flatMap((robot) => {
      pose(robot);
      return [place, ...[...poses.bodies, ...poses.frames].map(([, p]) => p.map((v, k) => v + place[k])),
        ...solids.map((solid) => point(solid.body, solid.at))];
    });
    const [low, high] = [Math.min, Math.max].map((of) => [0, 1, 2].map((k) => points.reduce((v, p) => of(v, p[k]), points[0][k])));
    middle = low.map((v, k) => (v + high[k]) / 2);
    size = Math.max(Math.hypot(...low.map((v, k) => high[k] - v)), 1e-6);
    pose(robots[0]);
  }
  bound(robots);
  const one = size;  // of one robot

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  let axes, around;
  // Turn the view: its axes (right, up, away), and directions around the line of sight.
  const aim = () => {
    const [c, s, C, S] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    axes = [[c, -s, 0], [s * S, c * S, C], [s * C, c * C, -S]];
    around = Array.from({ length: 72 }, (_, k) => {
      const [x, y] = [Math.cos(k * Math.PI / 36 + 0.01), Math.sin(k * Math.PI / 36 + 0.01)];
      return axes[0].map((v, i) => x * v + y * axes[1][i]);
    });
  };
  const seen = (p) => {
    const [x, y, z] = p.map((v, k) => (v - middle[k] - shift[k]) / size);
    const [a, up, depth] = axes.map((axis) => axis[0] * x + axis[1] * y + axis[2] * z);
    const scale = fitted * zoom / Math.max(1 + 0.35 * depth, 0.1);
    return [canvas.clientWidth / 2 + a * scale, canvas.clientHeight / 2 - up * scale, depth];
  };
  // Return the outline of a solid: its farthest points in these directions.
  const outline = (solid) => {
    if (solid.points) {
      const corners = solid.points.map((at) => point(solid.body, at));
      const along = (d, p) => d[0] * p[0] + d[1] * p[1] + d[2] * p[2];
      return around.map((d) => seen(corners.reduce((far, p) => along(d, p) > along(d, far) ? p : far)));
    }
    const center = point(solid.body, solid.at);
    const [sides, radii] = [solid.sides, solid.radii].map((all) => all.map((v) => placed(solid.body, v)[0]));
    return around.map((d) => {
      const along = (v) => d[0] * v[0] + d[1] * v[1] + d[2] * v[2];
      const most = Math.hypot(...radii.map(along)) || 1;
      const terms = [...sides.map((v) => [Math.sign(along(v)), v]), ...radii.map((v) => [along(v) / most, v])];
      return seen(center.map((x, i) => terms.reduce((sum, [f, v]) => sum + f * v[i], x)));
    });
  };
  const line = (from, to, style, width) => {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.beginPath();
    pen.moveTo(from[0], from[1]);
    pen.lineTo(to[0], to[1]);
    pen.stroke();
  };
  const dot = (at, radius, style) => {
    pen.beginPath();
    pen.arc(at[0], at[1], radius, 0, 2 * Math.PI);
    pen.fillStyle = style;
    pen.fill();
  };
  const polygon = (corners, style, fill = 0.12, stroke = 0.45) => {
    pen.beginPath();
    corners.forEach(([x, y]) => pen.lineTo(x, y));
    pen.closePath();
    pen.fillStyle = pen.strokeStyle = style;
    pen.lineWidth = 1;
    pen.globalAlpha = fill;
    pen.fill();
    pen.strokeStyle = fill > 0.5 ? color("paper") : style;
    pen.globalAlpha = stroke;
    pen.stroke();
    pen.globalAlpha = 1;
  };
  const shown = () => solids.filter((solid) => document.getElementById(solid.of)?.checked);
  // Scale the view so that the robot fills the canvas; large ellipsoids may be cut off.
  const fit = () => {
    aim();
    zoom = fitted = 1;
    const extent = (corners) => Math.max(1e-9, ...corners.map(([x, y]) => Math.max(
      Math.abs(x / canvas.clientWidth - 0.5), Math.abs(y / canvas.clientHeight - 0.5))));
    const bare = [...points.map(seen), ...shown().filter(({ of }) => of === "collision").flatMap(outline)];
    fitted = 0.44 / Math.min(1.25 * extent(bare), Math.max(extent(bare), extent(shown().flatMap(outline))));
  };

  function draw() {
    aim();
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const quiet = color("quiet"), ink = color("ink");
    dots = [];
    below.forEach((paint) => paint({ seen, line, quiet }));
    if (ground) floor(quiet);
    robots.flatMap((robot, k) => {
      pose(robot);
      return shown().map((solid) => [seen(point(solid.body, solid.at))[2], outline(solid), color(robots.length > 1 ? `c${k % 5}` : solid.of)]);
    }).sort((a, b) => b[0] - a[0])
      .forEach(([, corners, style]) => polygon(corners, style, ...(ground ? [0.85, 0.9] : [])));
    if (!ground) [["x", 0, "bad"], ["y", 1, "good"], ["z", 2, "revolute"]].forEach(([name, k, style]) => {
      const tip = [0, 0, 0];
      tip[k] = 0.12 * size;
      const end = seen(tip);
      line(seen([0, 0, 0]), end, color(style), 1.5);
      pen.fillStyle = color(style);
      pen.fillText(name, end[0] + 3, end[1]);
    });
    if (document.getElementById("skeleton")?.checked ?? true) robots.forEach((robot, k) => {
      pose(robot);
      skeleton(quiet, robots.length > 1 ? color(`c${k % 5}`) : ink);
    });
    pose(robots[0]);
  }
  // Draw lines of the ground.
  function floor(style) {
    const step = 10 ** Math.round(Math.log10(size / 8)), count = Math.min(40, Math.ceil(size / step));
    const [x, y] = [0, 1].map((k) => step * Math.round((middle[k] + shift[k]) / step)), far = count * step;
    pen.globalAlpha = 0.3;
    for (let k = -count; k <= count; ++k) {
      line(seen([x + k * step, y - far, 0]), seen([x + k * step, y + far, 0]), style, 0.75);
      line(seen([x - far, y + k * step, 0]), seen([x + far, y + k * step, 0]), style, 0.75);
    }
    pen.globalAlpha = 1;
  }
  // Draw the links and joints of a robot; those of the first one have labels.
  function skeleton(quiet, ink) {
    const own = [], width = Math.max(2.5, ground ? 0.03 * one / size * fitted * zoom : 0);
    pen.lineCap = "round";
    const moved = (p) => p.map((v, k) => v + place[k]);
    const origin = (body) => seen(moved(poses.bodies[body]?.[1] ?? [0, 0, 0]));
    frames.forEach((frame, k) => {
      const at = seen(moved(poses.frames[k][1]));
      if (ground) line(origin(frame.body), at, ink, frame.body < 0 ? 0.75 : width);
      else line(origin(frame.body), at, quiet, 0.75);
      dot(at, 1.5, quiet);
      own.push([at, `link ${frame.name}`]);
    });
    bodies.forEach((body, k) => {
      if (!(ground || scene.start) || body.kind !== "free") line(origin(body.parent), origin(k), ink, width);
    });
    bodies.forEach((body, k) => {
      const [from, to] = [-1, 1].map((s) => seen(point(k, [0, 0, s * 0.03 * size])));
      if (body.quaternion === null && !ground) line(from, to, color(body.kind), 3);
      dot(origin(k), k === hovered ? 8 : ground ? 0.35 * width : 4, color(ground ? "paper" : body.kind));
      own.push([origin(k), described(body)]);
    });
    if (place === robots[0].place) dots = own;
  }
  function described(body) {
    const unit = body.turn ? "rad" : "m", limits = [body.lower ?? -Infinity, body.upper ?? Infinity].map((x) => Number(x.toPrecision(4)));
    const value = (body.multiplier * q[body.q] + body.offset).toPrecision(3);
    const state = body.quaternion !== null ? "" : ` at ${value} ${unit}, limits ${limits.join(" to ")}`;
    return `${body.joint} (${body.kind})${body.mimics ? ", mimics" : ""}${state}; moves ${body.link}, ${body.mass.toPrecision(3)} kg`;
  }
  // Return which dot is the nearest within 12 pixels, joints before links.
  function near(x, y) {
    const far = dots.map(([at], k) => [Math.hypot(at[0] - x, at[1] - y) + (k < frames.length ? 4 : 0), k]);
    return far.filter(([d]) => d < 12).sort((a, b) => a[0] - b[0])[0]?.[1];
  }
  // Show the label of a dot, and mark its joint in the picture and its slider.
  function mark(k) {
    hovered = k - frames.length;
    sliders.forEach(({ row, index }) => row.classList.toggle("marked", index === hovered));
    draw();
    label.hidden = k === undefined;
    if (label.hidden) return;
    const [at, text] = dots[k];
    label.textContent = text;
    label.style.left = `${Math.max(0, Math.min(at[0] + 12, canvas.clientWidth - label.offsetWidth))}px`;
    label.style.top = `${Math.max(0, at[1] - label.offsetHeight - 8)}px`;
  }

  // A slider for each coordinate; free and ball joints have roll, pitch and yaw.
  function slider(index, name, turns, lower, upper) {
    const most = turns ? 4 * Math.PI : 10 * size, usual = turns ? Math.PI : size / 2;
    let from = Math.max(lower ?? Math.min(0, upper ?? 0) - usual, -most);
    let to = Math.min(upper ?? Math.max(0, lower ?? 0) + usual, most);
    if (!(from < to)) [from, to] = [-usual, usual];
    const row = document.createElement("label"), input = document.createElement("input");
    const value = document.createElement("input");
    Object.assign(value, { type: "number", step: turns ? 0.1 : 0.01, ariaLabel: `${name} [${turns ? "rad" : "m"}]` });
    value.addEventListener("input", () => {
      if (Number.isNaN(value.valueAsNumber)) return;
      input.value = value.valueAsNumber;
      move(value);
      mark(frames.length + index);
    });
    Object.assign(input, { type: "range", step: "any", min: from, max: to, value: scene.start?.[bodies[index].q] ?? 0 });
    const unit = Object.assign(document.createElement("span"), { className: "quiet", textContent: turns ? "rad" : "m" });
    row.append(Object.assign(document.createElement("span"), { textContent: name }), value, unit, input);
    rows.append(row);
    row.addEventListener("pointerenter", () => mark(frames.length + index));
    row.addEventListener("pointerleave", () => mark());
    input.addEventListener("input", () => { move(); mark(frames.length + index); });
    sliders.push({ row, index, input, value });
  }
  function move(edited) {
    const values = sliders.map(({ input, value }) => {
      if (value !== edited) value.value = input.valueAsNumber.toFixed(3);
      return input.valueAsNumber;
    });
    bodies.forEach((body, k) => {
      const own = values.filter((_, n) => sliders[n].index === k);
      if (!own.length) return;
      if (body.quaternion === null) return void (q[body.q] = own[0]);
      const angles = own.slice(body.quaternion);
      const [a, b, c] = angles.map((angle) => Math.cos(angle / 2));
      const [d, e, f] = angles.map((angle) => Math.sin(angle / 2));
      const turn = [d * b * c - a * e * f, a * e * c + d * b * f, a * b * f - d * e * c, a * b * c + d * e * f];
      [...own.slice(0, body.quaternion), ...turn].forEach((v, n) => { q[body.q + n] = v; });
    });
    poses = forwardKinematics(scene, q);
  }
  if (rows) bodies.forEach((body, k) => {
    if (body.quaternion === null && !body.mimics) slider(k, body.joint, body.turn !== 0, body.lower, body.upper);
  });
  if (rows) bodies.forEach((body, k) => {
    if (body.quaternion === null || scene.start) return;
    const parts = ["x", "y", "z"].slice(0, body.quaternion).concat(["roll", "pitch", "yaw"]);
    parts.forEach((part, n) => slider(k, `${body.joint} ${part}`, n >= body.quaternion, null, null));
  });
  document.getElementById("reset").addEventListener("click", () => {
    sliders.forEach(({ index, input }) => { input.value = scene.start?.[bodies[index].q] ?? 0; });
    [yaw, pitch] = [0.7, 0.3];
    move();
    fit();
    draw();
  });
  const copy = document.getElementById("copy");
  copy?.addEventListener("click", () => {
    const text = `[${q.map((v) => Number(v.toPrecision(9))).join(", ")}]`;
    const done = () => { copy.textContent = "Copied"; };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => prompt("q", text));
    else prompt("q", text);
  });
  for (const name of ["inertia", "collision", "skeleton"]) {
    const box = document.getElementById(name);
    if (!box) continue;
    box.disabled = name !== "skeleton" && !solids.some(({ of }) => of === name);
    box.addEventListener("change", draw);
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    mark(near(event.offsetX, event.offsetY));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return mark(near(event.offsetX, event.offsetY));
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
    mark();
  });
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
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
  window.addEventListener("resize", () => { fit(); draw(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  move();
  fit();
  draw();
  // Show several robots, and move the view with them.
  function stage(several, by) {
    robots = several;
    by.forEach((v, k) => { shift[k] = v; });
    pose(robots[0]);
    draw();
  }
  // Begin with the view of several robots on the ground.
  function begin(several) {
    [robots, ground] = [several, true];
    bound(several);
    fit();
  }
  // Show joint positions; the view follows a point of the robot in the horizontal plane.
  function show(values, follow) {
    poses = forwardKinematics(scene, values);
    stage([{ q: values, place }], [...(follow ? [0, 1].map((k) => follow(poses)[k] - middle[k]) : [0, 0]), 0]);
  }
  // Return the height of the lowest collision shape or link.
  const low = (solid) => solid.points ? Math.min(...solid.points.map((at) => point(solid.body, at)[2])) :
    point(solid.body, solid.at)[2] - solid.sides.reduce((sum, v) => sum + Math.abs(placed(solid.body, v)[0][2]), 0)
      - Math.hypot(...solid.radii.map((v) => placed(solid.body, v)[0][2]));
  const lowest = () => Math.min(...poses.frames.map(([, p]) => p[2]),
    ...solids.filter(({ of }) => of === "collision").map(low));
  return {
    scene, q, near, show, stage, begin, below, lowest, size, get axes() { return axes; }, get poses() { return poses; },
  };
})();
