/** Messages in short: what they say, and to which tool a result belongs. Ids differ from run to run. `all`: where calls are looked up. */
export function told(messages, all = messages) {
  const names = new Map(all.flatMap(({ toolCalls = [] }) => toolCalls.map((call) => [call.id, call.function.name])));
  return messages.map(({ role, content, toolCalls, toolCallId }) => ({
    role,
    ...(content ? { content } : {}),
    ...(toolCalls ? { calls: toolCalls.map((call) => ({ name: call.function.name, arguments: call.function.arguments })) } : {}),
    ...(toolCallId ? { of: names.get(toolCallId) ?? null } : {}),
  }));
}
