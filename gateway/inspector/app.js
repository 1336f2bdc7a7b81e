// The page's deeds: run, answer, stop, come back after a reload, open a past run or a file, save.
//
//   idle ── run, answer, open ──► streaming ── terminal event ──► idle (with a form, if the agent asks)
//                                     └────── broken for good ──► idle, said; the prompt is kept

import { AgentsPage } from "./agents-page.js";
import { Api, Gone } from "./api.js";
import { Compare } from "./compare.js";
import { Composer } from "./composer.js";
import { byId, el, save, setText } from "./dom.js";
import { Drop } from "./drop.js";
import { Follower } from "./follower.js";
import { FormsView } from "./forms-view.js";
import { messages, runInput } from "./history.js";
import { InputSide } from "./input-side.js";
import { answerText, answerWords, interruptForm } from "./interrupts.js";
import { aboutTrace, readTrace } from "./open-file.js";
import { Pages } from "./pages.js";
import { Problems } from "./problems.js";
import { Recording } from "./recording.js";
import { RunsPage } from "./runs-page.js";
import { Session } from "./session.js";
import { Stage } from "./stage.js";
import { Tabs } from "./tabs.js";
import { Verdict } from "./verdict.js";

/** Between two runs of a thread on the time axis, in milliseconds: the time in which the user thinks is not shown. */
const GAP = 300;

const newId = (kind) => `${kind}-${crypto.randomUUID()}`;

/** What a run that ended is called, by its outcome. */
const PHASES = { success: "finished", interrupt: "waiting", open: "cut", cancelled: "stopped" };

export class App {
  #base = 0;
  #asked = false;
  #isFile = false;
  #phaseShown = "";
  /** Whether another run of the thread is still to be read. */
  #isMore = false;
  /** The last event that was seen before a reload. */
  #resumeAt = "";
  /** Messages that a new thread begins with. */
  #fork = undefined;

  constructor() {
    this.session = new Session();
    this.api = new Api(this.session);
    this.forms = new FormsView(this.api);
    this.stage = new Stage({
      onFrame: (now) => this.#frame(now), onEvent: () => this.tabs.show("tab-events"), onFork: (block) => this.fork(block), onSelect: (record) => this.forms.select(record),
    });
    this.stage.clock = () => performance.now() - this.#base;
    this.verdict = new Verdict(this.api, { onPick: (n) => this.#pick(n), onAnswer: () => this.stage.wake() });
    this.problems = new Problems((failure) => this.#openFailure(failure));
    this.tabs = new Tabs(byId("tabs"), () => {});
    this.input = new InputSide(() => this.stage.model.state);
    this.composer = new Composer(this.session, {
      onSend: (agent, prompt) => this.run(agent, { prompt }), onStop: () => this.stop(), onToken: () => this.begin(), onNew: () => this.newThread(), onAgent: (agent) => this.#examples(agent),
    });
    this.follower = new Follower(this.session, { onPhase: (phase) => this.#phase(phase), onChange: () => this.composer.running(this.follower.isReading) });
    this.drop = new Drop((file) => this.openFile(file));
    this.runs = new RunsPage(this.api, {
      onOpen: (run, replay) => this.pages.go("run", [run.run], { replay: replay ? 1 : "" }), onCompare: (ids) => this.pages.go("compare", ids), onFilter: (filters) => this.pages.note("runs", [], filters),
    });
    this.compare = new Compare(this.api);
    this.health = new AgentsPage(this.api);
    this.pages = new Pages((place) => this.#show(place));
    byId("save").addEventListener("click", () => save(`${this.stage.recording.name}.sse`, this.stage.recording.toTrace(), "text/event-stream"));
    byId("verdict").addEventListener("click", () => this.tabs.show("tab-verdict"));
    byId("merge").checked = this.session.merge;
    byId("merge").addEventListener("change", (event) => this.#merge(event.target.checked));
    addEventListener("pagehide", () => this.follower.remember());
  }

  /** Lists the agents, and shows again what a reload interrupted. */
  async begin() {
    try {
      const agents = await this.api.agents();
      this.composer.list(agents);
      this.runs.agents(agents.map(({ name }) => name));
      byId("connection").hidden = true;
    } catch (error) {
      this.#disconnected(error);
      return;
    }
    const { runs } = this.session;
    if (this.pages.place.page !== "") this.pages.show();
    else if (runs.length > 0 && (this.stage.recording.length === 0 || this.#phaseShown === "gone")) await this.#watchAll(runs, this.session.last);
  }

  /** The gateway cannot be asked: said where it is seen on every page, with a way to try again. */
  #disconnected(error) {
    const isGone = error instanceof Gone;
    const again = el("button", { type: "button", class: "small", text: "Try again", on: { click: () => this.begin() } });
    byId("connection").replaceChildren(el("span", { text: error.message }), ...(isGone ? [again] : []));
    byId("connection").hidden = false;
    if (isGone) this.#phase("gone");
    if (error.status === 401) this.composer.askForToken();
  }

  #show({ page, parts, query }) {
    if (page !== "compare") this.compare.leave();
    if (page === "runs") this.runs.show(query);
    else if (page === "compare") this.compare.show(parts);
    else if (page === "agents") this.health.show();
    else if (page === "run" && parts[0] !== this.session.runs.at(-1)?.id) this.openRun(parts[0], query.replay === "1");
    else if (page === "run" && query.replay === "1") this.stage.player.replay(performance.now());
    this.stage.wake();
  }

  newThread() {
    this.follower.leave();
    this.session.forgetThread();
    this.#fork = undefined;
    this.#showRecording(new Recording());
    this.pages.go("");
    byId("prompt").focus();
  }

  /** The next run begins a thread of its own, with the messages before a block of this one. */
  fork(block) {
    const history = messages(this.stage.model, block);
    this.newThread();
    this.#fork = history;
    this.composer.type(block.text);
    this.stage.conversation.note(`A new thread with the ${history.length} messages before this one. Change the words, and run.`);
  }

  /** Starts a run: of a new thread, or the next one of this. */
  async run(agent, { prompt, resume }) {
    let extra;
    try {
      extra = this.input.read();
    } catch (error) {
      this.input.complain(error);
      return;
    }
    if (this.#isFile) this.newThread();
    if (this.pages.place.page !== "") this.pages.go("");
    const { recording, model } = this.stage;
    this.stage.player.live();
    const run = newId("run");
    if (!this.session.thread) this.session.set({ thread: newId("thread") });
    this.session.set({ agent, draft: prompt ?? "" });
    const answer = resume && answerWords(resume);
    const answers = resume?.map((entry) => ({ id: entry.interruptId, words: answerText(entry) }));
    this.session.addRun({ id: run, agent, prompt, answer, answers });
    recording.remember({ id: run, prompt, answer, answers });
    recording.name = agent;
    recording.merges = this.session.merge;
    const last = recording.records.at(-1)?.at;
    this.#base = performance.now() - (last === undefined ? 0 : last + GAP);
    recording.requests.push({ n: recording.length, at: performance.now() - this.#base });
    const history = [...(this.#fork ?? []), ...messages(model)];
    const input = runInput(this.session.thread, run, history, { prompt, resume, state: extra.state ?? model.state, extra });
    // What was typed is kept until the gateway has it.
    let isTaken = false;
    const onTaken = () => {
      isTaken = true;
      this.composer.clear();
    };
    const error = await this.#follow((take, signal) => this.api.start(agent, input, take, signal, onTaken), () => performance.now() - this.#base);
    if (error && !isTaken) this.session.dropRun(run);
    if (error && !isTaken && resume) this.#asked = false;
  }

  async stop() {
    const run = this.session.runs.at(-1)?.id;
    if (run) await this.api.cancel(run).catch((error) => this.stage.conversation.note(error.message, "problem"));
  }

  /** A run of the log; it may still be under way, and on any replica. */
  async openRun(id, replay) {
    this.follower.leave();
    const { runs = [] } = await this.api.runs({ q: id }).catch(() => ({}));
    const run = runs.find((run) => run.run === id) ?? { run: id, agent: this.session.agent };
    this.session.set({ thread: run.thread ?? "", agent: run.agent, runs: [{ id, runId: run.runId, agent: run.agent, prompt: run.prompt }], last: "" });
    this.composer.choose(run.agent);
    await this.#watchAll(this.session.runs, "");
    if (replay) this.stage.player.replay(performance.now());
    this.stage.wake();
  }

  /** Reads the thread again, with its deltas merged or apart. */
  async #merge(isOn) {
    this.session.set({ merge: isOn });
    if (this.session.runs.length > 0 && !this.#isFile) await this.#watchAll(this.session.runs, "");
  }

  async #watchAll(runs, last) {
    const recording = new Recording();
    recording.name = runs.at(-1).agent;
    recording.merges = this.session.merge;
    this.#showRecording(recording);
    this.#resumeAt = last;
    for (const [n, run] of runs.entries()) {
      // An admin knows the run of another principal by another id than its events do.
      recording.remember({ ...run, id: run.runId ?? run.id });
      this.#isMore = n < runs.length - 1;
      // Events that come again have no time of their own.
      const refused = await this.#follow((take, signal) => this.api.watch(run.id, take, signal), () => undefined);
      if (this.stage.recording !== recording) return;
      // The log holds a run for a while only: what is gone is not asked for again.
      if (refused?.status === 404) this.session.forgetThread();
    }
  }

  /** Reads a stream to its end into the recording that is shown; gives why it could not. */
  async #follow(open, clock) {
    const { recording } = this.stage;
    this.#asked = false;
    const onRecord = (record) => {
      if (record.id !== "" && record.id === this.#resumeAt) {
        setText(byId("resumed"), `Resumed: the ${recording.length} events from before the reload came again; what follows is new.`);
        byId("resumed").hidden = false;
      }
      this.stage.wake();
    };
    const { error, isLeft } = await this.follower.follow(recording, open, { clock, onRecord });
    if (isLeft) return undefined;
    if (recording.length === 0) this.#phase("idle");
    if (error instanceof Gone) this.#disconnected(error);
    else if (error) this.stage.conversation.note(error.message, "problem");
    if (error?.status === 401) this.composer.askForToken();
    this.stage.wake();
    return error;
  }

  #showRecording(recording) {
    this.#isFile = this.#isMore = false;
    this.#asked = false;
    byId("resumed").hidden = true;
    byId("file-about").hidden = true;
    this.problems.reset();
    this.stage.show(recording);
    this.verdict.reset();
    this.#phase("idle");
  }

  async openFile(file, convert = false) {
    this.follower.leave();
    this.pages.go("");
    try {
      const { recording, found } = await readTrace(this.api, file, convert);
      this.#showRecording(recording);
      this.#isFile = true;
      byId("file-about").replaceChildren(...aboutTrace(file, found, () => this.openFile(file, found.asRecorded)));
      byId("file-about").hidden = false;
      this.verdict.settle(found.verdict, recording.length);
    } catch (error) {
      this.stage.conversation.note(`${file.name}: ${error.message}`, "problem");
    }
  }

  #pick(n) {
    this.tabs.show("tab-events");
    this.stage.raw.reveal(Math.min(n, this.stage.recording.length - 1));
  }

  /** Shows where something failed: its pane in the conversation, and its event. */
  #openFailure(failure) {
    this.#pick(failure.n);
    if (failure.block) this.stage.conversation.reveal(failure.block);
  }

  async #examples(agent) {
    const card = await this.api.card(agent).catch(() => undefined);
    this.composer.suggest(agent, (card?.skills ?? []).flatMap((skill) => skill.examples ?? []));
  }

  /** With every frame: the verdict, questions, the phase. True while something streams. */
  #frame() {
    const { recording, model, isCaughtUp } = this.stage;
    const streams = this.follower.isReading || this.#isMore;
    this.follower.remember();
    if (!this.#isFile) this.verdict.update(recording, !streams, performance.now());
    if (!streams && isCaughtUp && recording.length > 0 && !this.#asked) this.#settle(model);
    if (this.stage.player.state !== "live") {
      this.#asked = false;
      this.#phase(this.stage.player.state === "playing" ? "replaying" : "paused");
    }
    return streams;
  }

  #settle(model) {
    this.#asked = true;
    const status = model.runs.at(-1)?.status ?? "open";
    if (this.#phaseShown !== "gone") this.#phase(PHASES[status] ?? status);
    const failure = this.problems.render(model);
    // The blocks of this frame, and the form after them, are shown before the next one.
    requestAnimationFrame(() => {
      if (failure && status !== "interrupt") this.#openFailure(failure);
      if (model.interrupts.length === 0 || this.#isFile) return;
      const form = interruptForm(model.interrupts, (resume) => this.run(this.session.agent, { resume }));
      this.stage.conversation.append(form);
      form.querySelector("input, select, textarea")?.focus();
    });
  }

  #phase(phase) {
    if (phase === this.#phaseShown) return;
    this.#phaseShown = phase;
    const pill = byId("phase");
    pill.dataset.phase = phase;
    setText(pill, phase);
  }
}
