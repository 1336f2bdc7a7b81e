//! The declared capabilities of an agent. The protocol defines their form, not how to request them. An undeclared capability
//! may still be supported.

use aqueduct_core::{ByteString, Metadata};

use super::declare::object;
use super::input::Tool;

object! {
    /// The capabilities of an agent.
    pub struct AgentCapabilities {
        /// Name, version and provider.
        identity: Option<IdentityCapabilities> = "identity",
        /// Supported transports.
        transport: Option<TransportCapabilities> = "transport",
        /// Supported tools.
        tools: Option<ToolsCapabilities> = "tools",
        /// Supported output formats.
        output: Option<OutputCapabilities> = "output",
        /// Support of shared state.
        state: Option<StateCapabilities> = "state",
        /// Support of sub-agents.
        multi_agent: Option<MultiAgentCapabilities> = "multiAgent",
        /// Support of reasoning.
        reasoning: Option<ReasoningCapabilities> = "reasoning",
        /// Supported media.
        multimodal: Option<MultimodalCapabilities> = "multimodal",
        /// Support of code execution.
        execution: Option<ExecutionCapabilities> = "execution",
        /// Support of human interaction.
        human_in_the_loop: Option<HumanInTheLoopCapabilities> = "humanInTheLoop",
        /// Further capabilities.
        custom: Option<Metadata> = "custom",
    }

    /// The identity of an agent.
    pub struct IdentityCapabilities {
        /// The name of the agent.
        name: Option<ByteString> = "name",
        /// The kind of agent.
        kind: Option<ByteString> = "type",
        /// A description for people.
        description: Option<ByteString> = "description",
        /// The version of the agent.
        version: Option<ByteString> = "version",
        /// The provider of the agent.
        provider: Option<ByteString> = "provider",
        /// The URL of the documentation.
        documentation_url: Option<ByteString> = "documentationUrl",
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata",
    }

    /// The transports of an agent.
    pub struct TransportCapabilities {
        /// Responses are streamed.
        streaming: Option<bool> = "streaming",
        /// WebSocket is supported.
        websocket: Option<bool> = "websocket",
        /// The protobuf encoding is supported.
        http_binary: Option<bool> = "httpBinary",
        /// Push notifications are supported.
        push_notifications: Option<bool> = "pushNotifications",
        /// A broken stream can be resumed.
        resumable: Option<bool> = "resumable",
    }

    /// The tools of an agent.
    pub struct ToolsCapabilities {
        /// The agent uses tools.
        supported: Option<bool> = "supported",
        /// The agent's own tools.
        items: Option<Vec<Tool>> = "items",
        /// Several calls at once are supported.
        parallel_calls: Option<bool> = "parallelCalls",
        /// Tools of the client are supported.
        client_provided: Option<bool> = "clientProvided",
    }

    /// The output of an agent.
    pub struct OutputCapabilities {
        /// Structured output is supported.
        structured_output: Option<bool> = "structuredOutput",
        /// The media types of the output.
        supported_mime_types: Option<Vec<ByteString>> = "supportedMimeTypes",
    }

    /// The shared state of an agent.
    pub struct StateCapabilities {
        /// The agent sends snapshots.
        snapshots: Option<bool> = "snapshots",
        /// The agent sends changes.
        deltas: Option<bool> = "deltas",
        /// The agent has a memory.
        memory: Option<bool> = "memory",
        /// The state persists between runs.
        persistent_state: Option<bool> = "persistentState",
    }

    /// The sub-agents of an agent.
    pub struct MultiAgentCapabilities {
        /// Sub-agents are supported.
        supported: Option<bool> = "supported",
        /// The agent delegates to sub-agents.
        delegation: Option<bool> = "delegation",
        /// The agent hands the conversation over to sub-agents.
        handoffs: Option<bool> = "handoffs",
        /// The sub-agents.
        subagents: Option<Vec<SubagentInfo>> = "subagents",
    }

    /// A sub-agent.
    pub struct SubagentInfo {
        /// The name of the sub-agent.
        name: ByteString = "name",
        /// A description for people.
        description: Option<ByteString> = "description",
    }

    /// The reasoning of an agent.
    pub struct ReasoningCapabilities {
        /// Reasoning is sent.
        supported: Option<bool> = "supported",
        /// Reasoning is streamed.
        streaming: Option<bool> = "streaming",
        /// Reasoning is encrypted.
        encrypted: Option<bool> = "encrypted",
    }

    /// The media of an agent.
    pub struct MultimodalCapabilities {
        /// Accepted media.
        input: Option<MultimodalInputCapabilities> = "input",
        /// Produced media.
        output: Option<MultimodalOutputCapabilities> = "output",
    }

    /// The media that an agent accepts.
    pub struct MultimodalInputCapabilities {
        /// Images.
        image: Option<bool> = "image",
        /// Audio.
        audio: Option<bool> = "audio",
        /// Video.
        video: Option<bool> = "video",
        /// PDF documents.
        pdf: Option<bool> = "pdf",
        /// Other files.
        file: Option<bool> = "file",
    }

    /// The media that an agent produces.
    pub struct MultimodalOutputCapabilities {
        /// Images.
        image: Option<bool> = "image",
        /// Audio.
        audio: Option<bool> = "audio",
    }

    /// The code execution of an agent.
    pub struct ExecutionCapabilities {
        /// The agent executes code.
        code_execution: Option<bool> = "codeExecution",
        /// Execution is sandboxed.
        sandboxed: Option<bool> = "sandboxed",
        /// The most iterations.
        max_iterations: Option<i64> = "maxIterations",
        /// The longest execution time.
        max_execution_time: Option<i64> = "maxExecutionTime",
    }

    /// The human interaction of an agent.
    pub struct HumanInTheLoopCapabilities {
        /// Human interaction is supported.
        supported: Option<bool> = "supported",
        /// The agent requests approvals.
        approvals: Option<bool> = "approvals",
        /// A human can intervene.
        interventions: Option<bool> = "interventions",
        /// The agent accepts feedback.
        feedback: Option<bool> = "feedback",
        /// The agent emits interrupts.
        interrupts: Option<bool> = "interrupts",
        /// An approval can change the approved input.
        approve_with_edits: Option<bool> = "approveWithEdits",
    }
}
