// assistant-ui as it comes: its AG-UI runtime and its primitives. The agent is the resuming one of `sdk/typescript`: with the
// client's own `HttpAgent` a page that is loaded again is empty, whatever the server keeps.
import { AssistantRuntimeProvider } from "@assistant-ui/react";
import { useAgUiRuntime } from "@assistant-ui/react-ag-ui";
import { ResumableHttpAgent } from "aqueduct-agui";
import { createRoot } from "react-dom/client";
import { Thread } from "./thread.jsx";

const query = new URLSearchParams(location.search);
const agent = new ResumableHttpAgent({
  url: query.get("url"),
  threadId: query.get("thread") ?? "thread",
  resume: { restore: true, cancelOnAbort: true },
});
const history = { load: async () => ({ messages: [], unstable_resume: true }), append: async () => {} };

function Chat() {
  const runtime = useAgUiRuntime({ agent, adapters: { history } });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread />
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
