// An application that installed the SDKs for TypeScript and React: runs an agent, and folds its events into lanes.
import { ResumableHttpAgent } from "aqueduct-agui";
import { LaneStore, formOf } from "aqueduct-react";

const agent = new ResumableHttpAgent({ url: process.argv[2], threadId: "thread" });
agent.addMessage({ id: "m1", role: "user", content: "Write about Rust" });
const store = new LaneStore();
await agent.runAgent({ runId: "run-of-the-package" }, { onEvent: ({ event }) => store.handle(event) });
const lanes = store.roots.map((id) => `${store.lanes.get(id).name}: ${store.lanes.get(id).status}`);
console.log(JSON.stringify({ lanes: lanes.sort(), last: agent.lastEventId !== undefined, form: formOf({ type: "boolean" }) !== undefined }));
