//! What an agent says it can do. The protocol fixes the shape, not how to ask for it; what is not declared is
//! not thereby unsupported.

use aqueduct_core::{ByteString, Metadata};

use super::declare::object;
use super::input::Tool;

object! {
    /// All that an agent declares.
    pub struct AgentCapabilities {
        /// Who it is.
        identity: Option<IdentityCapabilities> = "identity",
        /// How it can be reached.
        transport: Option<TransportCapabilities> = "transport",
        /// Its tools.
        tools: Option<ToolsCapabilities> = "tools",
        /// What it can put out.
        output: Option<OutputCapabilities> = "output",
        /// Its shared state.
        state: Option<StateCapabilities> = "state",
        /// Its sub-agents.
        multi_agent: Option<MultiAgentCapabilities> = "multiAgent",
        /// Its reasoning.
        reasoning: Option<ReasoningCapabilities> = "reasoning",
        /// Its media.
        multimodal: Option<MultimodalCapabilities> = "multimodal",
        /// How it runs code.
        execution: Option<ExecutionCapabilities> = "execution",
        /// How it works with humans.
        human_in_the_loop: Option<HumanInTheLoopCapabilities> = "humanInTheLoop",
        /// Anything else.
        custom: Option<Metadata> = "custom",
    }
}

object! {
    /// Who the agent is.
    pub struct IdentityCapabilities {
        /// Its name.
        name: Option<ByteString> = "name",
        /// Its kind.
        kind: Option<ByteString> = "type",
        /// What it is for.
        description: Option<ByteString> = "description",
        /// Its version.
        version: Option<ByteString> = "version",
        /// Who offers it.
        provider: Option<ByteString> = "provider",
        /// Where it is described.
        documentation_url: Option<ByteString> = "documentationUrl",
        /// Free data.
        metadata: Option<Metadata> = "metadata",
    }
}

object! {
    /// How the agent can be reached.
    pub struct TransportCapabilities {
        /// It streams.
        streaming: Option<bool> = "streaming",
        /// Over WebSocket.
        websocket: Option<bool> = "websocket",
        /// In protobuf.
        http_binary: Option<bool> = "httpBinary",
        /// It notifies.
        push_notifications: Option<bool> = "pushNotifications",
        /// A broken stream can be taken up again.
        resumable: Option<bool> = "resumable",
    }
}

object! {
    /// The agent's tools.
    pub struct ToolsCapabilities {
        /// It uses tools.
        supported: Option<bool> = "supported",
        /// Which ones.
        items: Option<Vec<Tool>> = "items",
        /// Several at once.
        parallel_calls: Option<bool> = "parallelCalls",
        /// Also those of the client.
        client_provided: Option<bool> = "clientProvided",
    }
}

object! {
    /// What the agent can put out.
    pub struct OutputCapabilities {
        /// Structured values.
        structured_output: Option<bool> = "structuredOutput",
        /// Media types.
        supported_mime_types: Option<Vec<ByteString>> = "supportedMimeTypes",
    }
}

object! {
    /// The agent's shared state.
    pub struct StateCapabilities {
        /// It sends it whole.
        snapshots: Option<bool> = "snapshots",
        /// It sends changes.
        deltas: Option<bool> = "deltas",
        /// It remembers.
        memory: Option<bool> = "memory",
        /// Its state outlives a run.
        persistent_state: Option<bool> = "persistentState",
    }
}

object! {
    /// The agent's sub-agents.
    pub struct MultiAgentCapabilities {
        /// It has some.
        supported: Option<bool> = "supported",
        /// It delegates.
        delegation: Option<bool> = "delegation",
        /// It hands over.
        handoffs: Option<bool> = "handoffs",
        /// Which ones.
        subagents: Option<Vec<SubagentInfo>> = "subagents",
    }
}

object! {
    /// A sub-agent.
    pub struct SubagentInfo {
        /// Its name.
        name: ByteString = "name",
        /// What it is for.
        description: Option<ByteString> = "description",
    }
}

object! {
    /// The agent's reasoning.
    pub struct ReasoningCapabilities {
        /// It shows it.
        supported: Option<bool> = "supported",
        /// As it thinks.
        streaming: Option<bool> = "streaming",
        /// Sealed.
        encrypted: Option<bool> = "encrypted",
    }
}

object! {
    /// The agent's media.
    pub struct MultimodalCapabilities {
        /// What it takes.
        input: Option<MultimodalInputCapabilities> = "input",
        /// What it gives.
        output: Option<MultimodalOutputCapabilities> = "output",
    }
}

object! {
    /// The media that the agent takes.
    pub struct MultimodalInputCapabilities {
        /// Pictures.
        image: Option<bool> = "image",
        /// Sound.
        audio: Option<bool> = "audio",
        /// Moving pictures.
        video: Option<bool> = "video",
        /// PDF.
        pdf: Option<bool> = "pdf",
        /// Other files.
        file: Option<bool> = "file",
    }
}

object! {
    /// The media that the agent gives.
    pub struct MultimodalOutputCapabilities {
        /// Pictures.
        image: Option<bool> = "image",
        /// Sound.
        audio: Option<bool> = "audio",
    }
}

object! {
    /// How the agent runs code.
    pub struct ExecutionCapabilities {
        /// It runs code.
        code_execution: Option<bool> = "codeExecution",
        /// Fenced in.
        sandboxed: Option<bool> = "sandboxed",
        /// At most that many rounds.
        max_iterations: Option<i64> = "maxIterations",
        /// At most that long.
        max_execution_time: Option<i64> = "maxExecutionTime",
    }
}

object! {
    /// How the agent works with humans.
    pub struct HumanInTheLoopCapabilities {
        /// It does.
        supported: Option<bool> = "supported",
        /// It asks for approval.
        approvals: Option<bool> = "approvals",
        /// It can be interrupted.
        interventions: Option<bool> = "interventions",
        /// It takes feedback.
        feedback: Option<bool> = "feedback",
        /// It raises interrupts.
        interrupts: Option<bool> = "interrupts",
        /// An approval can change what is approved.
        approve_with_edits: Option<bool> = "approveWithEdits",
    }
}
