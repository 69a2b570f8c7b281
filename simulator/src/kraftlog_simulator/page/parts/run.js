// The run as data, and its state at a moment. Nothing here draws.

const run = JSON.parse(document.getElementById("run").textContent);
const nodes = run.states.map((_, id) => id);

const EVENT = {at: 0, node: 1, kind: 2, text: 3, message: 4};
const MESSAGE = {sent: 0, arrives: 1, source: 2, target: 3, kind: 4, isResponse: 5, fate: 6};
const FAULT = {begin: 0, end: 1, what: 2, nodes: 3};

const ROLES = ["leader", "follower", "candidate", "prospective", "voted", "unattached", "resigned", "observer", "down"];
const MESSAGE_KINDS = ["pre-vote", "vote", "begin", "end", "fetch", "snapshot"];
const KINDS = [...MESSAGE_KINDS, "role", "log", "commit", "voters", "client", "fault"];
const KIND_COLOURS = {role: "--leader", log: "--soft", commit: "--ink", voters: "--voters", client: "--observer", fault: "--bad"};
const kindColour = (kind) => `var(${KIND_COLOURS[kind] || "--" + kind})`;

// The rule for each kind of event.
const RULES = {
  "pre-vote": "A pre-vote changes no epoch. A replica that still hears from a leader refuses it.",
  vote: "One vote an epoch, durable before it is sent, and only for a log that is at least as up to date as the voter’s.",
  begin: "A new leader notifies every voter until each has acknowledged it. Observers find it by fetching.",
  end: "A resigning leader names its successors, so that no voter has to wait for a timeout.",
  fetch: "A voter’s fetch acknowledges everything before its offset. A replica without a leader fetches from any voter to find it.",
  snapshot: "Records before the log start are only in the snapshot. A replica that needs them fetches it in chunks.",
  role: "A replica in any role adopts a newer epoch at once.",
  log: "Only the leader appends; the others replicate. A log that diverges from the leader’s is truncated.",
  commit: "Records are committed once a majority of the voters has them on disk. They are never lost.",
  voters: "Voters change one at a time. A replica uses the new voters as soon as their record is in its log, and reverts to the old ones if the record is truncated.",
  client: "A client gets a response only after the commit. Without a response the outcome is unknown.",
  fault: "Faults may delay the quorum. They must not make it lose or contradict committed records.",
};

// The index of the last entry of a list of [time, ...] at or before `time`; -1 if all are later.
function lastAt(list, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][0] <= time) low = middle + 1; else high = middle;
  }
  return low - 1;
}

// The state of a replica: the fields of `ReplicaState` in sentences.py, in its order.
function stateAt(id, time) {
  const states = run.states[id];
  const [, role, epoch, leader, voted, end, flushed, highWatermark, paused, writing, epochs, voters, votes, targets, votersAt, start] =
    states[Math.max(lastAt(states, time), 0)];
  return {role, epoch, leader, voted, end, flushed, highWatermark, paused, writing, epochs, voters, votes, targets, votersAt, start};
}

// The newest epoch with a leader: the leader of an older one does not know of it yet.
function newestLedEpoch(time) {
  return Math.max(-1, ...nodes.map((id) => stateAt(id, time)).filter((s) => s.role === "leader").map((s) => s.epoch));
}

// The target voters in the newest leader's log; null if there are none.
function targetsAt(time) {
  const newest = newestLedEpoch(time);
  const leader = nodes.map((id) => stateAt(id, time)).find((s) => s.role === "leader" && s.epoch === newest);
  return leader ? leader.targets : null;
}

function cutsAt(time) {
  const index = lastAt(run.cuts, time);
  return index < 0 ? [] : run.cuts[index][1];
}

const faultsAt = (time) => run.faults.filter((f) => f[FAULT.begin] <= time && time < f[FAULT.end]);

// The messages in flight in each slice of time.
const SLICE_MS = 20;
const slices = new Map();
run.messages.forEach((message, index) => {
  const last = Math.floor(Math.min(message[MESSAGE.arrives], run.end + 1) / SLICE_MS);
  for (let s = Math.floor(message[MESSAGE.sent] / SLICE_MS); s <= last; s++) {
    if (!slices.has(s)) slices.set(s, []);
    slices.get(s).push(index);
  }
});

// The messages in flight at some time from `since` to `time`.
function messagesWithin(since, time) {
  const indexes = new Set();
  for (let s = Math.floor(since / SLICE_MS); s <= Math.floor(time / SLICE_MS); s++) {
    for (const index of slices.get(s) || []) {
      const message = run.messages[index];
      if (message[MESSAGE.sent] <= time && message[MESSAGE.arrives] >= since) indexes.add(index);
    }
  }
  return [...indexes].sort((a, b) => a - b);
}

// Spans [begin, end, node, epoch] in which a replica had one of these roles in one epoch.
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
const leaderSpans = spansOf(["leader"]);
const campaigns = spansOf(["prospective", "candidate"]);

// Elections [begin, end]: overlapping campaigns, and those within 50 ms, are one election.
const elections = [];
for (const [begin, end] of campaigns) {
  const last = elections[elections.length - 1];
  if (last && begin <= last[1] + 50) last[1] = Math.max(last[1], end); else elections.push([begin, end]);
}

const EPOCH_COLOURS = ["#3f78d8", "#e07b1a", "#1f9d57", "#9a5bd6", "#c9403f", "#1c96a8", "#b08a00", "#d6569b"];
const epochColour = (epoch) => EPOCH_COLOURS[(epoch + EPOCH_COLOURS.length - 1) % EPOCH_COLOURS.length];
const escapeText = (text) => String(text).replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
