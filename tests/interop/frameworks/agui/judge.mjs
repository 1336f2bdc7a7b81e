// What is wrong with what a client holds: against the expected content of a scenario, and against the same client without the gateway.

const same = (a, b) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
const brief = (value) => JSON.stringify(value)?.slice(0, 700);

/** A value with the members of its objects in one order. */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

/** Texts, calls, results and reasoning of a conversation, each in order. */
function content(messages) {
  const of = (role) => messages.filter((message) => message.role === role);
  return {
    texts: of("assistant").map(({ content = "" }) => content.trim()).filter(Boolean),
    calls: of("assistant").flatMap(({ calls = [] }) => calls),
    results: of("tool").map(({ content, error }) => `${typeof content === "string" ? content : JSON.stringify(content)}${error ? ` ${error}` : ""}`),
    reasoning: of("reasoning").map(({ content = "" }) => content.trim()).filter(Boolean),
    blank: of("reasoning").filter(({ content = "" }) => content.trim() === ""),
    strays: of("tool").filter(({ of: name }) => name?.startsWith("unknown call")),
  };
}

/** Complaints about a conversation by what the scenario expects. */
export function judge(expect, traits, { turns }) {
  const held = content(turns.at(-1).messages);
  const red = [];
  // A question may be shown in words; those are judged where it is asked.
  const texts = expect.question ? held.texts.filter((text) => expect.texts.includes(text)) : held.texts;
  if (!same(texts, expect.texts ?? [])) red.push(`texts are ${brief(held.texts)}, not ${brief(expect.texts)}`);
  const calls = held.calls.filter(({ name }) => name !== "adk_request_confirmation");
  if (!same(calls, expect.calls ?? [])) red.push(`calls are ${brief(held.calls)}, not ${brief(expect.calls ?? [])}`);
  const results = held.results.filter((text) => text !== traits.open);
  if (results.length !== (expect.results ?? []).length || !(expect.results ?? []).every((piece, index) => tells(results[index], piece, traits))) {
    red.push(`results are ${brief(held.results)}, not ${brief(expect.results ?? [])}`);
  }
  if (held.blank.length > 0) red.push(`${held.blank.length} empty reasoning messages`);
  if (held.strays.length > 0) red.push(`results without call: ${brief(held.strays)}`);
  const reasoning = traits.reasoning === false ? [] : expect.reasoning ?? [];
  if (traits.reasoning !== "repeated" && held.reasoning.join("") !== reasoning.join("")) red.push(`reasoning is ${brief(held.reasoning)}, not ${brief(reasoning)}`);
  if (expect.state && !Object.entries(expect.state).every(([key, value]) => turns.at(-1).state?.[key] === value)) red.push(`state is ${brief(turns.at(-1).state)}`);
  return [...red, ...endings(expect, traits, turns), ...asked(expect, traits, turns)];
}

/** Whether a result holds what it should; a framework that hides errors from clients only says that there was one. */
function tells(result, piece, traits) {
  return result.includes(piece) || (traits.hidden !== undefined && result.startsWith("Error"));
}

/** How the turns ended. */
function endings(expect, traits, turns) {
  return turns.flatMap(({ error, runError, outcome }, index) => {
    if (error) return [`turn ${index + 1}: the client throws: ${error.slice(0, 400)}`];
    if (expect.runError && index === 0) return (runError ?? "").includes(traits.hidden ?? expect.runError) ? [] : [`the error is not shown: ${runError ?? outcome}`];
    if (runError) return [`turn ${index + 1}: RUN_ERROR ${runError.slice(0, 400)}`];
    return outcome === null ? [`turn ${index + 1}: no end`] : [];
  });
}

/** Whether the words of a question reach the user, as an interrupt, a call that waits or as text. */
function asked(expect, traits, [first]) {
  if (!expect.question || traits.open) return [];
  const words = first.questions.length > 0 ? first.questions.map(({ message }) => message ?? "") : first.messages.filter(({ role }) => role === "assistant").map(({ content = "" }) => content);
  return words.some((text) => text.toLowerCase().includes(expect.question)) ? [] : [`the question is not shown: ${brief(first.questions)}, messages ${brief(first.messages.slice(-2))}`];
}

/** Complaints about what differs from the same client without the gateway. */
export function compare(direct, through, { client, expect, traits }) {
  const red = [];
  // What is wrong without the gateway is no measure. With 0.0.59 the gateway shows a question as text, by intention.
  const isMeasure = judge({ ...expect, question: undefined, reasoning: undefined, texts: texts(direct) }, { ...traits, reasoning: "repeated" }, direct).length === 0;
  if (isMeasure && !(expect.question && client === "0.0.59")) {
    const [wanted, held] = [direct, through].map(({ turns }) => turns.at(-1).messages.filter(isShown).map(normal));
    if (!same(wanted, held)) red.push(`differs from direct: ${difference(wanted, held)}`);
  }
  if (direct.checkpoint && !expect.question && !same(direct.checkpoint, through.checkpoint)) red.push(`checkpoint differs: ${difference(direct.checkpoint, through.checkpoint)}`);
  const warnings = through.turns.flatMap(({ warnings }) => warnings).filter((warning) => !direct.turns.some((turn) => turn.warnings.includes(warning)));
  if (warnings.length > 0) red.push(`warnings: ${brief(warnings)}`);
  return red;
}

/** Reasoning is judged by itself: a snapshot may move it in the client. An assistant message without content shows nothing. */
const isShown = ({ role, content, calls }) => role !== "reasoning" && (role !== "assistant" || Boolean(content) || Boolean(calls));
const texts = ({ turns }) => content(turns.at(-1).messages).texts;

/** A message in which ids of calls are masked and what the user said is its text. */
function normal({ role, content, ...rest }) {
  const said = Array.isArray(content) ? content.filter(({ type }) => type === "text").map(({ text }) => text).join(" ") : content ?? "";
  return JSON.parse(JSON.stringify({ role, ...rest, content: said.trimEnd() }).replaceAll(/call_[0-9a-f]+_\d+/g, "call"));
}

function difference(wanted, held) {
  const index = wanted.findIndex((message, at) => !same(message, held[at]));
  const at = index < 0 ? wanted.length : index;
  return `${wanted.length} and ${held.length} messages; at ${at} directly ${brief(wanted[at])}, through ${brief(held[at])}`;
}
