// Sub-agents, tools, failures and questions of an AG-UI stream as React components. For CopilotKit and assistant-ui see
// `aqueduct-react/copilotkit` and `aqueduct-react/assistant-ui`; these are the parts for a frontend of your own.
export { Failure, Lane, StoredLane, Thought, Tool, Words, useStore } from "./components.js";
export { LaneStore } from "./lanes.js";
export { Question } from "./question.js";
export { formOf, replyOf, valuesOf } from "./schema.js";
export { useLanes } from "./use-lanes.js";
