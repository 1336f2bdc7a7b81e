import type { AgUiAssistantRuntime, UseAgUiRuntimeOptions } from "@assistant-ui/react-ag-ui";
import type { ComponentType, ReactElement } from "react";

export type AqueductRuntimeOptions = UseAgUiRuntimeOptions & {
  /**
   * A page that is loaded again shows its thread and follows the run under way. Needs a `ResumableHttpAgent` of `aqueduct-agui` with
   * `resume: { restore: true }`.
   */
  restore?: boolean;
};

/** `useAgUiRuntime`, which holds every sub-agent inside a tool call. */
export function useAqueductRuntime(options: AqueductRuntimeOptions): AgUiAssistantRuntime;

/** A message of the assistant with lanes, tools, thoughts and failures. `Text` shows words. */
export function AqueductMessage(props: { Text?: ComponentType<{ text: string }>; className?: string }): ReactElement;

/** The questions that the thread waits for, as forms. */
export function AqueductQuestions(): ReactElement[];
