// The timeline: leaders, elections and faults.

const ROW = {name: 62, height: 15, gap: 2, maxFaultRows: 5};

// The row of each fault: faults overlap only in the last row, if all rows are in use.
function packFaults() {
  const ends = [];
  return run.faults.map((fault) => {
    let row = ends.findIndex((end) => end <= fault[FAULT.begin]);
    if (row < 0) row = ends.length < ROW.maxFaultRows ? ends.length : ROW.maxFaultRows - 1;
    ends[row] = Math.max(ends[row] || 0, fault[FAULT.end]);
    return row;
  });
}
const faultRows = packFaults();

function drawTimeline() {
  const svg = document.getElementById("timeline");
  const width = svg.clientWidth || 1200;
  const x = (time) => ROW.name + (Math.max(time, 0) / run.end) * (width - ROW.name - 8);
  const top = (row) => row * (ROW.height + ROW.gap);
  const text = (what, at, row, room, kind) => room < 26 ? "" :
    `<text class="${kind}" x="${at + 4}" y="${top(row) + 11}">${escapeText(fitting(what, room))}</text>`;
  const parts = [`<text class="row-name" y="11">leaders</text>`];
  for (const [begin, end, id, epoch] of leaderSpans) {
    const room = Math.max(x(end) - x(begin), 2);
    parts.push(`<rect class="leader-span" data-time="${begin}" x="${x(begin)}" y="0" width="${room}" height="${ROW.height}" rx="2" fill="${epochColour(epoch)}" opacity=".35"><title>${id} leads epoch ${epoch}, from ${Math.ceil(begin)} to ${Math.ceil(end)} ms</title></rect>`,
      text(`${id} leads epoch ${epoch}`, x(begin), 0, room, "leader-text"));
  }
  parts.push(`<text class="row-name" y="${top(1) + 11}">elections</text>`);
  for (const [begin, end] of elections) {
    parts.push(`<rect class="campaign election-mark" data-time="${begin}" x="${x(begin)}" y="${top(1) + 2}" width="${Math.max(x(end) - x(begin), 5)}" height="${ROW.height - 4}" rx="2"><title>a replica campaigns, from ${Math.ceil(begin)} to ${Math.ceil(end)} ms</title></rect>`);
  }
  parts.push(`<text class="row-name" y="${top(2) + 11}">faults</text>`);
  run.faults.forEach((fault, index) => {
    const begin = x(fault[FAULT.begin]), room = Math.max(x(fault[FAULT.end]) - begin, 3);
    const row = 2 + faultRows[index];
    parts.push(`<rect class="fault-bar" data-time="${fault[FAULT.begin]}" x="${begin}" y="${top(row)}" width="${room}" height="${ROW.height}" rx="2"><title>${escapeText(fault[FAULT.what])}, from ${Math.ceil(fault[FAULT.begin])} to ${Math.ceil(fault[FAULT.end])} ms</title></rect>`,
      text(fault[FAULT.what], begin, row, room, "fault-text"));
  });
  const rows = 3 + Math.max(0, ...faultRows);
  svg.setAttribute("height", top(rows));
  parts.push(`<line class="cursor" id="cursor" y1="0" y2="${top(rows)}"/>`);
  svg.innerHTML = parts.join("");
  // The slider's thumb stays under the cursor.
  const slider = document.getElementById("slider");
  slider.style.marginLeft = `${ROW.name - 8}px`;
  slider.style.width = `${width - ROW.name + 8}px`;
  return x;
}

// The text, shortened to `room` pixels.
function fitting(text, room) {
  const maxLength = Math.floor(room / 6);  // a character is about 6 px wide
  return text.length <= maxLength ? text : maxLength > 4 ? text.slice(0, maxLength - 1) + "…" : "";
}
