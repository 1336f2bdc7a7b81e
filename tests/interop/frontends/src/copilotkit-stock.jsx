// CopilotKit v2 as it comes: its provider, its chat, its card for tool calls, and its hook for questions.
import "@copilotkit/react-core/v2/styles.css";
import { CopilotChat, CopilotKitProvider, useDefaultRenderTool, useInterrupt } from "@copilotkit/react-core/v2";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const [agentId, threadId] = [query.get("agent") ?? "team", query.get("thread") ?? "thread"];

function Question({ interrupt, resolve, cancel }) {
  const isForm = Object.keys(interrupt?.responseSchema?.properties ?? {}).length > 1;
  const send = (event) => {
    event.preventDefault();
    resolve(JSON.parse(event.target.reply.value));
  };
  return (
    <form className="question" onSubmit={send}>
      <p>{interrupt?.message}</p>
      {isForm && <input name="reply" placeholder="JSON" />}
      {isForm ? <button>Send reply</button> : <button type="button" onClick={() => resolve({ approved: true })}>Approve</button>}
      <button type="button" onClick={() => cancel()}>Decline</button>
    </form>
  );
}

function Chat() {
  useDefaultRenderTool();
  useInterrupt({ agentId, render: (props) => <Question {...props} /> });
  return <CopilotChat agentId={agentId} threadId={threadId} />;
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider runtimeUrl="/api/copilotkit" showDevConsole={false}>
    <Chat />
  </CopilotKitProvider>,
);
