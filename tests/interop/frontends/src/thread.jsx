// A thread of assistant-ui's primitives, in the shape of the one that its command line puts into an application.
import { ComposerPrimitive, ErrorPrimitive, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import { useAgUiInterrupts, useAgUiSubmitInterruptResponses } from "@assistant-ui/react-ag-ui";

const User = () => (
  <MessagePrimitive.Root className="message user">
    <MessagePrimitive.Parts />
  </MessagePrimitive.Root>
);

const Reasoning = ({ text }) => (
  <details className="reasoning">
    <summary>Reasoning</summary>
    <p>{text}</p>
  </details>
);

const Tool = ({ toolName, argsText, result, isError, status }) => (
  <details className="tool" data-tool={toolName} data-status={isError ? "error" : status.type}>
    <summary>
      {isError ? "✗" : status.type === "complete" ? "✓" : "…"} {toolName}
    </summary>
    <pre>{argsText}</pre>
    {result !== undefined && <pre>{typeof result === "string" ? result : JSON.stringify(result)}</pre>}
  </details>
);

const Assistant = () => (
  <MessagePrimitive.Root className="message assistant">
    <MessagePrimitive.Parts components={{ Reasoning, tools: { Fallback: Tool } }} />
    <MessagePrimitive.Error>
      <ErrorPrimitive.Root className="error">
        <ErrorPrimitive.Message />
      </ErrorPrimitive.Root>
    </MessagePrimitive.Error>
  </MessagePrimitive.Root>
);

const Questions = () => {
  const [interrupts, submit] = [useAgUiInterrupts(), useAgUiSubmitInterruptResponses()];
  if (interrupts.length === 0) return null;
  const isForm = Object.keys(interrupts[0].responseSchema?.properties ?? {}).length > 1;
  const answer = (reply) => submit(interrupts.map(({ id }) => ({ interruptId: id, ...reply })));
  const send = (event) => {
    event.preventDefault();
    answer({ status: "resolved", payload: JSON.parse(event.target.reply.value) });
  };
  return (
    <form className="question" onSubmit={send}>
      {interrupts.map(({ id, message }) => <p key={id}>{message}</p>)}
      {isForm && <input name="reply" placeholder="JSON" />}
      {isForm ? <button>Send reply</button> : <button type="button" onClick={() => answer({ status: "resolved", payload: { approved: true } })}>Approve</button>}
      <button type="button" onClick={() => answer({ status: "cancelled" })}>Decline</button>
    </form>
  );
};

export const Thread = ({ Message = Assistant, children = <Questions /> }) => (
  <ThreadPrimitive.Root className="thread">
    <ThreadPrimitive.Viewport>
      <ThreadPrimitive.Messages components={{ UserMessage: User, AssistantMessage: Message }} />
      {children}
    </ThreadPrimitive.Viewport>
    <ComposerPrimitive.Root className="composer">
      <ComposerPrimitive.Input placeholder="Type a message…" />
      <ThreadPrimitive.If running={false}>
        <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
      </ThreadPrimitive.If>
      <ThreadPrimitive.If running>
        <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
      </ThreadPrimitive.If>
    </ComposerPrimitive.Root>
  </ThreadPrimitive.Root>
);
