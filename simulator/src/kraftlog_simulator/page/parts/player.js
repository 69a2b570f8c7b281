// Time, controls, filters and the list of events.

const element = (id) => document.getElementById(id);
const SPEEDS = [1, 5, 10, 20, 50, 100, 250, 500, 1000];
// How long a message stays visible after its arrival.
const FADE_SECONDS = 0.5;
// How many events are listed before and after the current one.
const ROWS_AROUND = 40;
// The factor by which time passes faster while nothing is visible.
const IDLE_SPEEDUP = 12;

const view = {time: 0, playing: false, speed: 20, lastFrame: 0};
const hidden = {kinds: new Set(["log", "client"]), nodes: new Set()};
// The events that the filters show, the position of the current one in the list on the page, and the
// function from a time to its place on the timeline.
let listed = [];
let listPosition = -1;
let timeX = null;

const shows = {
  node: (id) => !hidden.nodes.has(id),
  message: (m) => !hidden.kinds.has(m[MESSAGE.kind]) && (shows.node(m[MESSAGE.source]) || shows.node(m[MESSAGE.target])),
  event: (e) => {
    if (hidden.kinds.has(e[EVENT.kind])) return false;
    if (e[EVENT.message] >= 0) return shows.message(run.messages[e[EVENT.message]]);
    return e[EVENT.node] < 0 || shows.node(e[EVENT.node]);
  },
};

// Drawing -------------------------------------------------------------------------------------

function draw() {
  const position = lastAt(listed, view.time);
  const event = position >= 0 ? listed[position] : null;
  const fresh = event && view.time - event[EVENT.at] < Math.max(view.speed * FADE_SECONDS, 1);
  const captioned = event && !view.playing && fresh ? event[EVENT.message] : -1;
  drawRing(view.time, Math.max(view.speed * FADE_SECONDS, 1), captioned, shows);
  drawLogs(view.time);
  drawCaption(event);
  drawList(position);
  const ms = Math.max(Math.ceil(view.time - 1e-6), 0);
  element("clock").textContent = `${ms} of ${run.end} ms`;
  element("slider").value = view.time;
  element("slider").setAttribute("aria-valuetext", `${ms} ms`);
  document.body.dataset.time = ms;
  const cursor = element("cursor");
  cursor.setAttribute("x1", timeX(view.time));
  cursor.setAttribute("x2", timeX(view.time));
}

function drawCaption(event) {
  element("now").textContent = event ? event[EVENT.text] : "Press play, or step from event to event.";
  element("why").textContent = event ? RULES[event[EVENT.kind]] : "";
}

function drawList(position) {
  if (position === listPosition) return;
  listPosition = position;
  const first = Math.max(position - ROWS_AROUND, 0);
  const rows = listed.slice(first, position + ROWS_AROUND).map((event, i) => {
    const when = first + i === position ? "now" : first + i > position ? "later" : "";
    return `<li class="${when}" data-event="${first + i}" style="--chip:${kindColour(event[EVENT.kind])}"><time>${Math.ceil(event[EVENT.at])}</time><i></i><span>${escapeText(event[EVENT.text])}</span></li>`;
  });
  const list = element("events");
  list.innerHTML = rows.join("") || "<li><span></span><i></i>The filter hides all events.</li>";
  const now = list.querySelector(".now");
  list.scrollTop = now ? now.offsetTop - list.offsetTop - list.clientHeight / 2 : 0;
}

// Time ----------------------------------------------------------------------------------------

function goTo(time) {
  view.time = Math.min(Math.max(time, 0), run.end);
  draw();
  if (!view.playing) writeAddress();
}

function writeAddress() {
  history.replaceState(null, "", `#t=${+view.time.toFixed(4)}`);
}

function readAddress() {
  const match = /[#&]t=([\d.]+)/.exec(location.hash);
  if (match) goTo(Number(match[1]));
}

function step(by) {
  pause();
  const position = lastAt(listed, view.time);
  // Between two events, a step back goes to the earlier one.
  const between = position >= 0 && listed[position][EVENT.at] < view.time - 1e-6;
  const next = by < 0 && between ? position : position + by;
  if (next >= 0 && next < listed.length) goTo(listed[next][EVENT.at]);
  else if (next < 0) goTo(0);
}

function stepElection(by) {
  pause();
  const times = elections.map(([begin]) => begin);
  const next = by > 0 ? times.find((t) => t > view.time + 1e-6) : times.reverse().find((t) => t < view.time - 1e-6);
  if (next !== undefined) goTo(next);
}

function play() {
  if (view.time >= run.end) view.time = 0;
  view.playing = true;
  view.lastFrame = performance.now();
  element("play").textContent = "❚❚ pause";
  requestAnimationFrame(advance);
}

function pause() {
  if (!view.playing) return;
  view.playing = false;
  element("play").textContent = "▶ play";
  writeAddress();
  draw();
}

function advance(now) {
  if (!view.playing) return;
  let ms = (Math.min(now - view.lastFrame, 100) / 1000) * view.speed;
  view.lastFrame = now;
  if (element("skip").checked) ms = spedUpWhenIdle(ms);
  goTo(view.time + ms);
  if (view.time >= run.end) pause(); else requestAnimationFrame(advance);
}

// The ms to advance: more than `ms` while nothing is visible, but not beyond the next event.
function spedUpWhenIdle(ms) {
  const next = listed[lastAt(listed, view.time) + 1];
  const quietUntil = next ? next[EVENT.at] : run.end;
  if (quietUntil - view.time < view.speed || messagesWithin(view.time, view.time).length) return ms;
  return Math.min(ms * IDLE_SPEEDUP, Math.max(quietUntil - view.time - view.speed / 4, ms));
}

function setSpeed(index) {
  const bounded = Math.min(Math.max(index, 0), SPEEDS.length - 1);
  view.speed = SPEEDS[bounded];
  element("speed").selectedIndex = bounded;
}

// Filters -------------------------------------------------------------------------------------

function refilter() {
  listed = run.events.filter(shows.event);
  listPosition = -2;
  for (const chip of document.querySelectorAll("[data-kind]")) chip.setAttribute("aria-pressed", !hidden.kinds.has(chip.dataset.kind));
  for (const chip of document.querySelectorAll("[data-replica]")) chip.setAttribute("aria-pressed", shows.node(Number(chip.dataset.replica)));
  draw();
}

function toggle(set, what) {
  if (!set.delete(what)) set.add(what);
  refilter();
}

const PRESETS = {
  everything: KINDS,
  elections: ["pre-vote", "vote", "begin", "end", "role", "voters", "fault"],
  replication: ["fetch", "snapshot", "log", "commit", "voters", "client", "fault"],
  "the story": ["vote", "role", "voters", "fault"],
};

function setPreset(kinds) {
  hidden.kinds = new Set(KINDS.filter((kind) => !kinds.includes(kind)));
  hidden.nodes.clear();
  refilter();
}

function makeFilters() {
  element("presets").innerHTML = "show " + Object.keys(PRESETS).map((name) => `<button class="chip" data-preset="${name}">${name}</button>`).join("");
  element("kind-chips").innerHTML = KINDS.map((kind) => `<button class="chip" data-kind="${kind}" style="--chip:${kindColour(kind)}">${kind}</button>`).join("");
  element("node-chips").innerHTML = "replicas " + nodes.map((id) => `<button class="chip" data-replica="${id}">${id}</button>`).join("");
  element("legend-roles").innerHTML = ROLES.map((role) => `<li><span class="swatch" style="background:var(--${role})"></span>${role}</li>`).join("");
  element("legend-kinds").innerHTML = MESSAGE_KINDS.map((kind) => `<li><span class="swatch" style="background:var(--${kind})"></span>${kind}</li>`).join("");
}

// Input ---------------------------------------------------------------------------------------

const KEYS = {
  " ": () => (view.playing ? pause() : play()),
  ArrowLeft: (shift) => (shift ? stepElection(-1) : step(-1)),
  ArrowRight: (shift) => (shift ? stepElection(1) : step(1)),
  Home: () => { pause(); goTo(0); },
  End: () => { pause(); goTo(run.end); },
  "+": () => setSpeed(element("speed").selectedIndex + 1),
  "-": () => setSpeed(element("speed").selectedIndex - 1),
  "?": () => element("help").showModal(),
};

function listen() {
  const clicks = {
    play: KEYS[" "], first: KEYS.Home, previous: () => step(-1), next: () => step(1),
    "previous-election": () => stepElection(-1), "next-election": () => stepElection(1), "help-button": KEYS["?"],
  };
  for (const [id, act] of Object.entries(clicks)) element(id).addEventListener("click", act);
  document.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || element("help").open) return;
    event.preventDefault();
    act(event.shiftKey);
  });
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-event],[data-time],[data-kind],[data-replica],[data-preset],[data-node]");
    if (!target || target === document.body) return;
    const {event: row, time, kind, replica, preset, node} = target.dataset;
    if (row !== undefined) { pause(); goTo(listed[row][EVENT.at]); }
    else if (time !== undefined) { pause(); goTo(Number(time)); }
    else if (kind !== undefined) toggle(hidden.kinds, kind);
    else if (preset !== undefined) setPreset(PRESETS[preset]);
    else toggle(hidden.nodes, Number(replica ?? node));
  });
  element("slider").addEventListener("input", (event) => { pause(); goTo(Number(event.target.value)); });
  element("speed").addEventListener("change", (event) => setSpeed(event.target.selectedIndex));
  window.addEventListener("hashchange", readAddress);
  window.addEventListener("resize", () => { timeX = drawTimeline(); draw(); });
}

const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

function begin() {
  element("run-name").textContent = `${run.scenario}, seed ${run.seed}`;
  element("outcome").textContent = run.failed ? run.outcome : `${count(run.voters, "voter")}, ${count(run.observers, "observer")}; no invariant violated`;
  element("outcome").classList.toggle("failed", run.failed);
  document.title = `${run.scenario}, seed ${run.seed}: a run of the quorum`;
  element("slider").max = run.end;
  element("speed").innerHTML = SPEEDS.map((speed) => `<option>${speed} ms a second</option>`).join("");
  setSpeed(SPEEDS.indexOf(view.speed));
  makeFilters();
  timeX = drawTimeline();
  listen();
  refilter();
  readAddress();
  document.body.dataset.ready = "true";
}
begin();
