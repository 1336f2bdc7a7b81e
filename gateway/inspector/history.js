// The messages of a thread, as the next run of it needs them. Pure.

/** From blocks of the main agent: what sub-agents said is not part of the thread. With `until`, only what was before that
 *  block. */
export function messages(model, until = undefined) {
  const list = [];
  for (const block of model.blocks) {
    if (block === until) break;
    if (block.lane !== model.root) continue;
    // An answer goes with `resume`, it is no message.
    if (block.kind === "user" && !block.isAnswer) list.push({ id: block.id, role: "user", content: block.text });
    else if (block.kind === "text" && block.text !== "") list.push({ id: uniqueId(list, block), role: block.role, content: block.text });
    else if (block.kind === "tool" && block.status !== "open") list.push(...toolMessages(block));
  }
  return list;
}

/** A message that was interrupted and went on has two blocks with one id. */
function uniqueId(list, block) {
  return list.some((message) => message.id === block.id) ? `${block.id}-${block.n}` : block.id;
}

function toolMessages(block) {
  const call = { id: block.id, type: "function", function: { name: block.title, arguments: block.text } };
  const made = [{ id: `call-${block.id}`, role: "assistant", toolCalls: [call] }];
  if (block.result !== undefined) made.push({ id: `result-${block.id}`, role: "tool", toolCallId: block.id, content: block.result });
  return made;
}

/** The body of a run. */
export function runInput(thread, run, history, { prompt, resume, state, extra } = {}) {
  const spoken = prompt === undefined ? history : [...history, { id: `user-${run}`, role: "user", content: prompt }];
  return {
    threadId: thread, runId: run, protocolVersion: "1.0", state: state ?? {}, messages: spoken,
    tools: [], context: [], forwardedProps: {}, ...extra, ...(resume === undefined ? {} : { resume }),
  };
}
