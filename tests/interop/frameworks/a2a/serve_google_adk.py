"""google-adk's A2A server: `serve_google_adk.py <port> [sse | new]` (`RunConfig` with SSE streaming; the new executor)."""
from server import arguments, listen, serve

import asyncio

import fake_model
import tools
from google.adk.a2a.converters.request_converter import convert_a2a_request_to_agent_run_request
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.a2a.executor.config import A2aAgentExecutorConfig
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import ToolContext
from google.genai import types


def to_openai(content):
    """A `Content` of the request as chat completion messages."""
    calls = [{"function": part.function_call.name} for part in content.parts if part.function_call]
    parts = [{"type": "text", "text": part.text} for part in content.parts if part.text]
    parts += [{"type": "image_url"} for part in content.parts if part.inline_data or part.file_data]
    results = [part.function_response.response for part in content.parts if part.function_response]
    if results:
        return {"role": "tool", "content": str(results)}
    return {"role": "assistant" if content.role == "model" else "user", "content": parts, "tool_calls": calls}


class ScriptedLlm(BaseLlm):
    """The shared script as a model of this framework."""

    async def generate_content_async(self, llm_request, stream=False):
        step = fake_model.next_step([to_openai(content) for content in llm_request.contents])
        said = []
        if "thinking" in step:
            said.append(types.Part(text=step["thinking"], thought=True))
        for kind in ("thinking", "say") if stream else ():
            for token in fake_model.tokens(step.get(kind, "")):
                await asyncio.sleep(step.get("pause", 0.01))
                part = types.Part(text=token, thought=kind == "thinking" or None)
                yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        if "fail" in step:
            raise RuntimeError(step["fail"])
        if "say" in step:
            said.append(types.Part(text=step["say"]))
        said += [types.Part.from_function_call(name=c["name"], args=c["arguments"]) for c in step.get("calls", [])]
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, candidates_token_count=5, total_token_count=8)
        yield LlmResponse(content=types.Content(role="model", parts=said), usage_metadata=usage, partial=False)


def deploy(cluster: str, tool_context: ToolContext) -> dict:
    """Deploys to a cluster."""
    if not tool_context.tool_confirmation:
        tool_context.request_confirmation(hint=tools.QUESTION)
        tool_context.actions.skip_summarization = True
        return {"error": "This tool call requires confirmation."}
    return {"result": tools.deploy(cluster) if tool_context.tool_confirmation.confirmed else "Not deployed."}


def on_tool_error(tool, args, tool_context, error):
    """Gives an exception of a tool to the model; without it the framework ends the run."""
    return {"error": str(error)}


def with_streaming(context, part_converter):
    request = convert_a2a_request_to_agent_run_request(context, part_converter)
    request.run_config = RunConfig(streaming_mode=StreamingMode.SSE)
    return request


port, variant = arguments()
listener, address = listen(port)
agent = LlmAgent(
    name="google_adk", description="An agent of google-adk.", model=ScriptedLlm(model="fake"),
    tools=[tools.weather, deploy], on_tool_error_callback=on_tool_error,
)


def executor(runner):
    config = A2aAgentExecutorConfig(request_converter=with_streaming) if variant in ("sse", "new") else None
    return A2aAgentExecutor(runner=runner, config=config, force_new_version=variant == "new")


app = to_a2a(agent, host="127.0.0.1", port=int(address.rsplit(":", 1)[1]), agent_executor_factory=executor)
serve(app, listener, address)
