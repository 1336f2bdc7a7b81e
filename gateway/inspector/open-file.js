// A file as a recording, by way of the gateway, which knows the dialects.

import { el } from "./dom.js";
import { Recording, timesOf } from "./recording.js";

/** Events that are read between two frames. */
const PIECE = 2000;

/** `{ recording, found }`: the events, and what the gateway found out. */
export async function readTrace(api, file, convert) {
  const trace = await file.text();
  const { found, lines } = await api.convert(trace, convert);
  const recording = new Recording();
  recording.name = file.name.replace(/\.[^.]*$/, "");
  const times = found.asRecorded ? timesOf(trace) : undefined;
  const isTimed = times?.length === lines.length;
  for (let n = 0; n < lines.length; n += 1) {
    recording.push(lines[n], { at: isTimed ? times[n] : undefined });
    if (n % PIECE === PIECE - 1) await new Promise(requestAnimationFrame);
  }
  return { recording, found };
}

/** Words about a file; `onOther` shows it the other way. */
export function aboutTrace(file, found, onOther) {
  const words = found.asRecorded ? "AG-UI, as recorded" : found.from === "agui" ? "AG-UI, repaired by the gateway" : `${found.from}, converted to AG-UI`;
  const problems = [found.error, ...found.notes].filter(Boolean);
  const nodes = [el("span", { text: `${file.name}: ${words}.` }), ...problems.map((problem) => el("span", { class: "problem", text: problem }))];
  if (found.from === "agui") nodes.push(el("button", { type: "button", class: "small", text: found.asRecorded ? "Show repaired" : "Show as recorded", on: { click: onOther } }));
  return nodes;
}
