// The run as data, and questions about a moment of it. Nothing here draws.

const run = JSON.parse(document.getElementById("run").textContent);
const nodes = run.states.map((_, id) => id);

const EVENT = {at: 0, node: 1, kind: 2, text: 3, message: 4};
const MESSAGE = {sent: 0, lands: 1, source: 2, target: 3, kind: 4, isAnswer: 5, fate: 6};
const FAULT = {begin: 0, end: 1, what: 2, nodes: 3};

const ROLES = ["leader", "follower", "candidate", "prospective", "voted", "unattached", "resigned", "observer", "down"];
const MESSAGE_KINDS = ["pre-vote", "vote", "begin", "end", "fetch", "snapshot"];
const KINDS = [...MESSAGE_KINDS, "role", "log", "commit", "voters", "client", "fault"];
const KIND_COLOURS = {role: "--leader", log: "--soft", commit: "--ink", voters: "--voters", client: "--observer", fault: "--bad"};
const kindColour = (kind) => `var(${KIND_COLOURS[kind] || "--" + kind})`;

// The rule behind what is seen.
const RULES = {
  "pre-vote": "Asking first costs nothing: no epoch changes, and who still hears a leader says no.",
  vote: "One vote an epoch, on disk before it is given, and only for a log at least as up to date as one’s own.",
  begin: "A new leader tells every voter, until each has noticed. Observers find out by fetching.",
  end: "A leader that leaves names its successors, so that nobody has to wait for a timeout.",
  fetch: "To fetch from an offset says: all before it is on disk here. Who knows no leader asks any voter.",
  snapshot: "What a snapshot holds is no longer in the log. Who lacks it gets the snapshot, piece by piece.",
  role: "Who learns of a newer epoch adopts it at once, whatever it was.",
  log: "Only the leader appends; the others copy. Where logs part, the leader’s is right.",
  commit: "Committed is what a majority of the voters has on disk. It can’t be lost any more.",
  voters: "Voters come and go one at a time. A change is in force where it is in the log, and goes if it is cut off.",
  client: "A client is told “safe” only after the commit. Without an answer it can’t know.",
  fault: "Faults may delay the quorum. They must not make it forget or contradict itself.",
};

// The last entry of a list of [time, ...] that is not later; -1 if all are.
function lastAt(list, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][0] <= time) low = middle + 1; else high = middle;
  }
  return low - 1;
}

function stateAt(id, time) {
  const states = run.states[id];
  const [, role, epoch, leader, voted, end, flushed, mark, paused, writing, epochs, voters, votes, targets, votersAt, start] =
    states[Math.max(lastAt(states, time), 0)];
  return {role, epoch, leader, voted, end, flushed, mark, paused, writing, epochs, voters, votes, targets, votersAt, start};
}

// The newest epoch that anybody leads: a leader of an older one does not know yet that it is over.
function newestReign(time) {
  return Math.max(-1, ...nodes.map((id) => stateAt(id, time)).filter((s) => s.role === "leader").map((s) => s.epoch));
}

// Where a reassignment leads to, as the newest leader knows it; null if there is none.
function targetsAt(time) {
  const newest = newestReign(time);
  const leader = nodes.map((id) => stateAt(id, time)).find((s) => s.role === "leader" && s.epoch === newest);
  return leader ? leader.targets : null;
}

function cutsAt(time) {
  const index = lastAt(run.cuts, time);
  return index < 0 ? [] : run.cuts[index][1];
}

const faultsAt = (time) => run.faults.filter((f) => f[FAULT.begin] <= time && time < f[FAULT.end]);

// Messages by the stretches of time in which they are under way.
const STRETCH_MS = 20;
const stretches = new Map();
run.messages.forEach((message, index) => {
  const last = Math.floor(Math.min(message[MESSAGE.lands], run.end + 1) / STRETCH_MS);
  for (let s = Math.floor(message[MESSAGE.sent] / STRETCH_MS); s <= last; s++) {
    if (!stretches.has(s)) stretches.set(s, []);
    stretches.get(s).push(index);
  }
});

// Whatever was under way at some time from `since` to `time`.
function messagesWithin(since, time) {
  const found = new Set();
  for (let s = Math.floor(since / STRETCH_MS); s <= Math.floor(time / STRETCH_MS); s++) {
    for (const index of stretches.get(s) || []) {
      const message = run.messages[index];
      if (message[MESSAGE.sent] <= time && message[MESSAGE.lands] >= since) found.add(index);
    }
  }
  return [...found].sort((a, b) => a - b);
}

// Spans [begin, end, node, epoch] in which a replica led.
function spansOf(roles) {
  const spans = [];
  for (const id of nodes) {
    let open = null;
    for (const [at, role, epoch] of run.states[id]) {
      if (open && (!roles.includes(role) || epoch !== open[3])) {
        spans.push([open[0], at, id, open[3]]);
        open = null;
      }
      if (!open && roles.includes(role)) open = [at, run.end, id, epoch];
    }
    if (open) spans.push(open);
  }
  return spans.sort((a, b) => a[0] - b[0]);
}
const reigns = spansOf(["leader"]);
const campaigns = spansOf(["prospective", "candidate"]);

// An election: where a stretch of campaigns begins.
const elections = [];
for (const [begin, end] of campaigns) {
  const last = elections[elections.length - 1];
  if (last && begin <= last[1] + 50) last[1] = Math.max(last[1], end); else elections.push([begin, end]);
}

const EPOCH_COLOURS = ["#3f78d8", "#e07b1a", "#1f9d57", "#9a5bd6", "#c9403f", "#1c96a8", "#b08a00", "#d6569b"];
const epochColour = (epoch) => EPOCH_COLOURS[(epoch + EPOCH_COLOURS.length - 1) % EPOCH_COLOURS.length];
const escapeText = (text) => String(text).replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
