// assistant-ui with `sdk/react`, and the resuming agent of `sdk/typescript`.
import "aqueduct-react/styles.css";
import { AssistantRuntimeProvider } from "@assistant-ui/react";
import { ResumableHttpAgent } from "aqueduct-agui";
import { AqueductMessage, AqueductQuestions, useAqueductRuntime } from "aqueduct-react/assistant-ui";
import { createRoot } from "react-dom/client";
import { Thread } from "./thread.jsx";

const query = new URLSearchParams(location.search);
const agent = new ResumableHttpAgent({
  url: query.get("url"),
  threadId: query.get("thread") ?? "thread",
  resume: { restore: true, cancelOnAbort: true },
});

function Chat() {
  const runtime = useAqueductRuntime({ agent, restore: true });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread Message={AqueductMessage}>
        <AqueductQuestions />
      </Thread>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
