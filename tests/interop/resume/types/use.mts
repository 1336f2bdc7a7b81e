// How an application in TypeScript uses the package: compiled, never run.
import { HttpAgent } from "@ag-ui/client";
import { GatewaySocket, ResumableHttpAgent, ResumeError, WebSocketAgent } from "aqueduct-agui";

const agent: HttpAgent = new ResumableHttpAgent({
  url: "http://127.0.0.1:8080/agents/weather",
  threadId: "thread",
  headers: { Authorization: "Bearer token" },
  resume: {
    retry: { attempts: 10, firstDelayMs: 100, maxDelayMs: 5_000 },
    cancelOnAbort: true,
    onReconnect: ({ delayMs, lastEventId }) => console.info(delayMs, lastEventId?.length),
  },
});

export async function use(own: ResumableHttpAgent): Promise<boolean> {
  try {
    await agent.runAgent({ runId: "run" });
    await own.connectAgent();
  } catch (error) {
    if (error instanceof ResumeError && error.status === 410) console.info(error.earliest?.toFixed());
  }
  const id: string | undefined = own.clone().lastEventId;
  return id === own.activeRunId || (await own.cancelRun());
}

const socket = new GatewaySocket({ url: "ws://127.0.0.1:8080/ws", token: "token", lingerMs: 0 });
const shared = new WebSocketAgent({ socket, agent: "weather", threadId: "thread" });
const own = new WebSocketAgent({ url: "ws://127.0.0.1:8080/ws", agent: "weather", cancelOnAbort: true });

export async function overSockets(): Promise<string | undefined> {
  await Promise.all([shared.runAgent({ runId: "a" }), own.clone().runAgent({ runId: "b" })]);
  own.cancelRun();
  own.socket.close();
  return shared.activeRunId;
}
