// The lanes of an agent, followed as its events come.
import { useEffect, useMemo } from "react";
import { useStore } from "./components.js";
import { LaneStore } from "./lanes.js";

/** Follows an AG-UI agent. A new `thread` begins with an empty store. */
export function useLanes(agent, thread) {
  const store = useMemo(() => new LaneStore(), [agent, thread]);
  useEffect(() => {
    const subscription = agent.subscribe({ onEvent: ({ event }) => void store.handle(event) });
    return () => subscription.unsubscribe();
  }, [agent, store]);
  return useStore(store);
}
