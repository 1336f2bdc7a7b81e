/** Messages in short: what they say, and to which tool a result belongs. Ids differ from run to run. */
export function told(messages) {
  const names = new Map(messages.flatMap(({ toolCalls = [] }) => toolCalls.map((call) => [call.id, call.function.name])));
  return messages.map(({ role, content, toolCalls, toolCallId }) => ({
    role,
    ...(content ? { content } : {}),
    ...(toolCalls ? { calls: toolCalls.map((call) => ({ name: call.function.name, arguments: call.function.arguments })) } : {}),
    ...(toolCallId ? { of: names.get(toolCallId) ?? null } : {}),
  }));
}
