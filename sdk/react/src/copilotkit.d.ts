import type { CopilotChatProps } from "@copilotkit/react-core/v2";
import type { ReactElement, ReactNode } from "react";

export type AqueductChatProps = CopilotChatProps & {
  /** Shows the words of sub-agents by other means, such as Markdown. */
  renderText?: (text: string) => ReactNode;
};

/** `CopilotChat` with sub-agents as lanes, tool calls that can fail, failures in words, and questions as forms. */
export function AqueductChat(props: AqueductChatProps): ReactElement;
