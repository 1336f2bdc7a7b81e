// CopilotKit v2 with `sdk/react`.
import "@copilotkit/react-core/v2/styles.css";
import "aqueduct-react/styles.css";
import { CopilotKitProvider } from "@copilotkit/react-core/v2";
import { AqueductChat } from "aqueduct-react/copilotkit";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider runtimeUrl="/api/copilotkit" showDevConsole={false}>
    <AqueductChat agentId={query.get("agent") ?? "team"} threadId={query.get("thread") ?? "thread"} />
  </CopilotKitProvider>,
);
