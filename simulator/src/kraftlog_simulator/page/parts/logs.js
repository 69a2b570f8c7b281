// One lane per replica: its log, offset by offset.

const LANE = {name: 92, box: 15, gap: 2, ruler: 15, note: 186};

function drawBox(offset, first, top, height, state) {
  const x = LANE.name + (offset - first) * (LANE.box + LANE.gap);
  if (offset < state.start) {
    return `<rect class="entry in-snapshot" x="${x}" y="${top}" width="${LANE.box}" height="${height}" rx="2"/>`;
  }
  const epoch = epochOf(state.epochs, offset);
  const isVoters = state.votersAt.includes(offset);
  const classes = `entry${isVoters ? " voters" : ""}${offset < state.highWatermark ? " committed" : ""}${offset >= state.flushed ? " unflushed" : ""}`;
  const text = height > 12 ? `<text class="entry-epoch" x="${x + LANE.box / 2}" y="${top + height / 2 + 3.2}">${isVoters ? "V" : epoch}</text>` : "";
  return `<rect class="${classes}" style="--epoch:${epochColour(epoch)}" x="${x}" y="${top}" width="${LANE.box}" height="${height}" rx="2"/>${text}`;
}

function epochOf(epochs, offset) {
  let result = 0;
  for (const [epoch, start] of epochs) if (start <= offset) result = epoch;
  return result;
}

function drawLane(id, state, newest, top, height, first, count) {
  const middle = top + height / 2 + 4;
  const parts = [`<g data-lane="${id}" data-start="${state.start}" data-end="${state.end}" data-high-watermark="${state.highWatermark}">`,
    `<circle cx="7" cy="${top + height / 2}" r="5" fill="var(--${state.role})"/>`,
    `<text class="lane-name" x="17" y="${middle}">${id}${state.role === "leader" && state.epoch === newest ? " ★" : ""}</text>`];
  if (first > 0) parts.push(`<text class="lane-note" x="${LANE.name - 6}" y="${middle}" text-anchor="end">${Math.min(first, state.end)}&#8201;…</text>`);
  for (let offset = first; offset < Math.min(state.end, first + count); offset++) {
    parts.push(drawBox(offset, first, top, height - 3, state));
  }
  if (state.role !== "down" && state.highWatermark >= first) {
    const x = LANE.name + (state.highWatermark - first) * (LANE.box + LANE.gap) - LANE.gap / 2;
    parts.push(`<path class="mark" d="M${x} ${top - 1}v${height - 1}"/><path class="mark-top" d="M${x - 4} ${top - 2}h8l-4 5z"/>`);
  }
  const beyond = state.end > first + count ? `${state.end - first - count} more ›  ` : "";
  const note = beyond + (state.role === "down" ? `ends at ${state.end}` : `${state.highWatermark} of ${state.end} committed`);
  parts.push(`<text class="lane-note" x="100%" y="${middle}" text-anchor="end">${note}</text></g>`);
  return parts.join("");
}

function drawLogs(time) {
  const section = document.getElementById("logs");
  const states = nodes.map((id) => stateAt(id, time));
  const count = Math.max(Math.floor((section.clientWidth - 20 - LANE.name - LANE.note) / (LANE.box + LANE.gap)), 10);
  const end = Math.max(...states.map((state) => state.end));
  // Show the offsets around the high watermark; a long uncommitted tail is only counted. Scroll in
  // steps of five, so that the boxes do not move all the time.
  const highWatermark = Math.max(...states.map((state) => state.highWatermark));
  const last = Math.min(end, highWatermark + Math.floor(count * 0.4));
  const first = last <= count ? 0 : Math.ceil((last - count) / 5) * 5;
  const height = nodes.length > 7 ? 17 : 21;
  const ruler = [];
  for (let offset = first; offset < first + count; offset += 5) {
    ruler.push(`<text class="ruler" x="${LANE.name + (offset - first) * (LANE.box + LANE.gap)}" y="10">${offset}</text>`);
  }
  const newest = newestLedEpoch(time);
  const lanes = states.map((state, id) => drawLane(id, state, newest, LANE.ruler + id * height, height, first, count));
  section.innerHTML = `<svg height="${LANE.ruler + nodes.length * height}"><text class="ruler" x="0" y="10">offset</text>${ruler.join("")}${lanes.join("")}</svg>`;
}
