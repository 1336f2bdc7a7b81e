// The page's deeds: run, answer, stop, come back after a reload, open a past run or a file, save.
//
//   idle ── run, answer, open ──► streaming ── terminal event ──► idle (with a form, if the agent asks)
//                                     └────── broken for good ──► idle, told

import { Api } from "./api.js";
import { Composer } from "./composer.js";
import { byId, save, setText } from "./dom.js";
import { Drop } from "./drop.js";
import { Follower } from "./follower.js";
import { messages, runInput } from "./history.js";
import { answerWords, interruptForm } from "./interrupts.js";
import { aboutTrace, readTrace } from "./open-file.js";
import { Recording } from "./recording.js";
import { Runs } from "./runs.js";
import { Session } from "./session.js";
import { Stage } from "./stage.js";
import { Tabs } from "./tabs.js";
import { Verdict } from "./verdict.js";

/** Between two runs of a thread on the time axis, in milliseconds: how long the user thought is nobody's time. */
const GAP = 300;

const newId = (kind) => `${kind}-${crypto.randomUUID()}`;

export class App {
  #base = 0;
  #asked = false;
  #isFile = false;
  #phaseShown = "";
  /** Whether another run of the thread is still to be read. */
  #isMore = false;
  /** The last event that was seen before a reload. */
  #resumeAt = "";

  constructor() {
    this.session = new Session();
    this.api = new Api(this.session);
    this.stage = new Stage({ onFrame: (now) => this.#frame(now), onEvent: () => this.tabs.show("tab-events") });
    this.stage.clock = () => performance.now() - this.#base;
    this.verdict = new Verdict(this.api, { onPick: (n) => this.#pick(n), onAnswer: () => this.stage.wake() });
    this.runs = new Runs(this.api, { onOpen: (run, replay) => this.openRun(run, replay) });
    this.tabs = new Tabs(byId("tabs"), (id) => id === "tab-runs" && this.runs.refresh());
    this.composer = new Composer(this.session, {
      onSend: (agent, prompt) => this.run(agent, { prompt }), onStop: () => this.stop(), onToken: () => this.begin(), onNew: () => this.newThread(),
    });
    this.follower = new Follower(this.session, { onPhase: (phase) => this.#phase(phase), onChange: () => this.composer.running(this.follower.isReading) });
    this.drop = new Drop((file) => this.openFile(file));
    byId("save").addEventListener("click", () => save(`${this.stage.recording.name}.sse`, this.stage.recording.toTrace(), "text/event-stream"));
    byId("verdict").addEventListener("click", () => this.tabs.show("tab-verdict"));
    addEventListener("pagehide", () => this.follower.remember());
  }

  /** Lists the agents, and shows again what a reload interrupted. */
  async begin() {
    try {
      this.composer.list(await this.api.agents());
      byId("connection").hidden = true;
    } catch (error) {
      setText(byId("connection"), error.message);
      byId("connection").hidden = false;
      if (error.status === 401) this.composer.askForToken();
      return;
    }
    const { runs } = this.session;
    if (runs.length > 0 && this.stage.recording.length === 0) await this.#watchAll(runs, this.session.last);
  }

  newThread() {
    this.follower.leave();
    this.session.forgetThread();
    this.#show(new Recording());
    byId("prompt").focus();
  }

  /** Starts a run: of a new thread, or the next one of this. */
  async run(agent, { prompt, resume }) {
    if (this.#isFile) this.newThread();
    const { recording, model } = this.stage;
    this.stage.player.live();
    const run = newId("run");
    if (!this.session.thread) this.session.set({ thread: newId("thread") });
    this.session.set({ agent });
    const answer = resume && answerWords(resume);
    this.session.addRun({ id: run, agent, prompt, answer });
    recording.remember({ id: run, prompt, answer });
    recording.name = agent;
    const last = recording.records.at(-1)?.at;
    this.#base = performance.now() - (last === undefined ? 0 : last + GAP);
    recording.requests.push({ n: recording.length, at: performance.now() - this.#base });
    this.composer.clear();
    const input = runInput(this.session.thread, run, messages(model), { prompt, resume, state: model.state });
    await this.#follow((take, signal) => this.api.start(agent, input, take, signal), () => performance.now() - this.#base);
  }

  async stop() {
    const run = this.session.runs.at(-1)?.id;
    if (run) await this.api.cancel(run).catch((error) => this.stage.conversation.note(error.message, "problem"));
  }

  /** A run of the log; it may still be under way. */
  async openRun(run, replay) {
    this.follower.leave();
    this.session.set({ thread: run.thread, agent: run.agent, runs: [{ id: run.run, agent: run.agent }], last: "" });
    this.composer.agent.value = run.agent;
    await this.#watchAll(this.session.runs, "");
    if (replay) this.stage.player.replay(performance.now());
    this.stage.wake();
  }

  async #watchAll(runs, last) {
    const recording = new Recording();
    recording.name = runs.at(-1).agent;
    this.#show(recording);
    this.#resumeAt = last;
    for (const [n, run] of runs.entries()) {
      recording.remember(run);
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
    if (error) this.stage.conversation.note(error.message, "problem");
    if (error?.status === 401) this.composer.askForToken();
    if (recording.length === 0) this.#phase("idle");
    this.stage.wake();
    return error;
  }

  #show(recording) {
    this.#isFile = this.#isMore = false;
    this.#asked = false;
    byId("resumed").hidden = true;
    byId("file-about").hidden = true;
    this.stage.show(recording);
    this.verdict.reset();
    this.#phase("idle");
  }

  async openFile(file, convert = false) {
    this.follower.leave();
    try {
      const { recording, found } = await readTrace(this.api, file, convert);
      this.#show(recording);
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
    this.stage.wake();
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
    this.#phase({ success: "finished", interrupt: "waiting", open: "cut" }[status] ?? status);
    if (model.interrupts.length === 0 || this.#isFile) return;
    // The form comes after the last block, which is shown in this frame.
    requestAnimationFrame(() => {
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
