// The ring: replicas, and the messages in flight between them.

const RING = {x: 330, y: 160, width: 212, height: 112, node: 30};
const places = nodes.map((id) => {
  const angle = (2 * Math.PI * id) / nodes.length - Math.PI / 2;
  return {x: RING.x + RING.width * Math.cos(angle), y: RING.y + RING.height * Math.sin(angle)};
});

// A message's path: curved, so that requests and responses do not overlap.
function pathOf(source, target) {
  const a = places[source], b = places[target];
  const dx = b.x - a.x, dy = b.y - a.y, distance = Math.hypot(dx, dy) || 1;
  const bend = Math.min(22, distance / 8), gap = RING.node + 3;
  const from = {x: a.x + (dx / distance) * gap, y: a.y + (dy / distance) * gap};
  const to = {x: b.x - (dx / distance) * gap, y: b.y - (dy / distance) * gap};
  const middle = {x: (a.x + b.x) / 2 - (dy / distance) * bend, y: (a.y + b.y) / 2 + (dx / distance) * bend};
  return {from, middle, to};
}

// The point of a path at a share of its length: a quadratic Bézier curve.
function along({from, middle, to}, share) {
  const left = 1 - share;
  const mix = (p, q, r) => left * left * p + 2 * left * share * q + share * share * r;
  return {x: mix(from.x, middle.x, to.x), y: mix(from.y, middle.y, to.y)};
}

const fixed = (number) => number.toFixed(1);
const curve = ({from, middle, to}) =>
  `M${fixed(from.x)} ${fixed(from.y)}Q${fixed(middle.x)} ${fixed(middle.y)} ${fixed(to.x)} ${fixed(to.y)}`;

// A message's progress at `time`, 1 when it has arrived; a lost message ends in the middle.
function progressOf(message, time) {
  const sent = message[MESSAGE.sent], arrives = message[MESSAGE.arrives];
  const share = arrives > sent ? Math.min((time - sent) / (arrives - sent), 1) : 1;
  return message[MESSAGE.fate] === "lost" ? 0.55 * share : share;
}

// `fadeMs`: how long a message that has arrived stays visible. `captioned`: the message in the caption.
function drawMessage(index, time, fadeMs, captioned) {
  const message = run.messages[index];
  const path = pathOf(message[MESSAGE.source], message[MESSAGE.target]);
  const over = time >= message[MESSAGE.arrives];
  const opacity = index === captioned ? 1 : over ? Math.max(1 - (time - message[MESSAGE.arrives]) / fadeMs, 0) * 0.7 : 0.9;
  if (opacity <= 0) return "";
  const colour = kindColour(message[MESSAGE.kind]);
  const {x, y} = along(path, progressOf(message, time));
  const line = `<path class="flight${index === captioned ? " captioned" : ""}" d="${curve(path)}" stroke="${colour}" opacity="${fixed(opacity * 0.5)}"${message[MESSAGE.isResponse] ? ' stroke-dasharray="5 4"' : ""}/>`;
  if (over && message[MESSAGE.fate] === "arrived" && index !== captioned) return line;
  const at = `opacity="${fixed(opacity)}" data-message="${index}"`;
  if (over && message[MESSAGE.fate] !== "arrived") {
    return `${line}<path ${at} class="cross" d="M${fixed(x - 6)} ${fixed(y - 6)}l12 12m0-12l-12 12"/>`;
  }
  const fill = message[MESSAGE.isResponse] ? "var(--hole)" : colour;
  return `${line}<circle ${at} class="message-dot" cx="${fixed(x)}" cy="${fixed(y)}" r="5.5" fill="${fill}" stroke="${colour}"/>`;
}

// The text beside a replica: its role, its leader, its vote, and its part in a reassignment.
function linesOf(id, state, newest, targets) {
  const name = state.role !== "leader" ? state.role : state.epoch === newest ? "★ leader" : "old leader";
  const role = name + (state.paused ? ", paused" : "");
  if (state.role === "down") return [role];
  const lines = [role];
  if (state.role !== "leader") lines.push(state.leader < 0 ? "no leader" : `leader: ${state.leader}`);
  if (targets && targets.includes(id) !== state.votes) lines.push(state.votes ? "is to be removed" : "is to become a voter");
  if (state.votes) {
    const vote = state.voted < 0 ? "no vote" : state.voted === id ? "voted for itself" : `voted for ${state.voted}`;
    lines.push(state.writing ? `${vote} (not yet on disk)` : vote);
  }
  return lines;
}

// The label of a replica, outside of the ring, where no message passes.
function drawLabel(id, lines) {
  const {x, y} = places[id];
  const side = Math.abs(x - RING.x) < 20 ? 0 : Math.sign(x - RING.x);
  const anchor = side === 0 ? "middle" : side > 0 ? "start" : "end";
  const above = side === 0 && y < RING.y;
  const first = side !== 0 ? 4 - 6.5 * (lines.length - 1) : above ? -RING.node - 10 - 13 * (lines.length - 1) : RING.node + 19;
  return lines.map((line, row) =>
    `<text class="${row ? "note" : "role"}" x="${side * (RING.node + 12)}" y="${first + 13 * row}" text-anchor="${anchor}">${line}</text>`).join("");
}

function drawNode(id, time, shown) {
  const state = stateAt(id, time), {x, y} = places[id];
  const newest = newestLedEpoch(time);
  const crown = state.role === "leader" ? `<circle class="crown${state.epoch === newest ? "" : " of-old"}" r="${RING.node + 5}"/>` : "";
  const targets = targetsAt(time);
  const lines = linesOf(id, state, newest, targets);
  return `<g class="node${shown ? "" : " off"}" data-node="${id}" data-role="${state.role}" data-epoch="${state.epoch}" data-leader="${state.leader}" data-voted="${state.voted}" data-voter="${state.votes}" data-target="${!!targets && targets.includes(id)}" transform="translate(${fixed(x)} ${fixed(y)})">` +
    `<title>${id}: ${lines.join(", ")}; epoch ${state.epoch}; log up to ${state.end}, ${state.highWatermark} committed</title>${crown}` +
    `<circle class="body" r="${RING.node}" fill="var(--${state.role})"/>` +
    `<text class="id" y="4" text-anchor="middle">${id}</text><text class="epoch" y="17" text-anchor="middle">epoch ${state.epoch}</text>` +
    `${drawLabel(id, lines)}</g>`;
}

function drawRing(time, fadeMs, captioned, shows) {
  const cuts = cutsAt(time).map(([a, b]) => `<path class="cut" d="${curve(pathOf(a, b))}"/>`);
  const visible = messagesWithin(time - fadeMs, time);
  if (captioned >= 0 && !visible.includes(captioned)) visible.push(captioned);
  const messages = visible.filter((index) => index === captioned || shows.message(run.messages[index]))
    .map((index) => drawMessage(index, time, fadeMs, captioned));
  const circles = nodes.map((id) => drawNode(id, time, shows.node(id)));
  const faults = faultsAt(time).map((fault, row) => `<text class="wrong" x="0" y="${-12 + 15 * row}">⚠ ${escapeText(fault[FAULT.what])}</text>`);
  document.getElementById("ring").innerHTML = faults.join("") + cuts.join("") + messages.join("") + circles.join("");
}
