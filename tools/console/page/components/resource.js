// Hooks for what a page asks for: an answer, asked again every few seconds, or a stream of events.
import { ApiError, ask, resourceAddress } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";

/**
 * The answer of a resource: `{data, error, isLoading, reload}`.
 * `everyMs`: a time, or a function of the last answer that gives one; ask again while the page is in sight; the data stays until the next answer. `name` null: ask nothing.
 */
export function useResource(name, parameters = {}, { everyMs = 0 } = {}) {
  const key = name === null ? null : resourceAddress(name, parameters);
  const [state, setState] = useState({ key: null, data: null, error: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    let last = null;
    const pause = () => (typeof everyMs === "function" ? everyMs(last) : everyMs);
    const load = async () => {
      if (document.hidden && last) {
        timer = setTimeout(load, pause());
        return;
      }
      try {
        const data = await ask(name, parameters, abort.signal);
        last = data;
        if (!abort.signal.aborted) setState({ key, data, error: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        setState((before) => ({ key, data: before.key === key ? before.data : null, error }));
      }
      if (pause()) timer = setTimeout(load, pause());
    };
    load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, typeof everyMs === "function" ? "paced" : everyMs, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const isCurrent = state.key === key;
  const data = isCurrent ? state.data : null;
  const error = isCurrent ? state.error : null;
  return { data, error, isLoading: key !== null && data === null && error === null, reload };
}

/**
 * A stream of events: `onEvent(content)` for each one; returns `{isOpen, error, stop}`.
 * `name` null: no stream. With `isLasting` the stream ends while the page is hidden, and begins again afterwards.
 */
export function useStream(name, parameters, onEvent, { isLasting = false } = {}) {
  const key = name === null ? null : resourceAddress(name, parameters);
  const [state, setState] = useState({ isOpen: false, error: null });
  const handler = useRef(onEvent);
  const source = useRef(null);
  handler.current = onEvent;
  const stop = useCallback(() => {
    source.current?.close();
    source.current = null;
    setState((before) => ({ ...before, isOpen: false }));
  }, []);
  useEffect(() => {
    if (key === null) return undefined;
    const open = () => {
      const opened = new EventSource(key);
      source.current = opened;
      setState({ isOpen: true, error: null });
      opened.onmessage = (event) => handler.current(JSON.parse(event.data));
      opened.addEventListener("end", stop);
      opened.addEventListener("failure", (event) => {
        stop();
        setState({ isOpen: false, error: new ApiError(JSON.parse(event.data).error, 502) });
      });
      opened.onerror = async () => {
        if (isLasting && opened.readyState === EventSource.CONNECTING) return; // the browser tries again by itself
        stop();
        try {
          await ask(name, parameters, AbortSignal.timeout(3000)); // the reason, which EventSource does not tell
          setState({ isOpen: false, error: new ApiError("the stream has ended early", 0) });
        } catch (error) {
          const early = new ApiError("the stream has ended early", 0);
          setState({ isOpen: false, error: error instanceof ApiError ? error : early });
        }
      };
    };
    const follow = () => (document.hidden ? stop() : source.current ?? open());
    open();
    if (isLasting) document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      source.current?.close();
      source.current = null;
    };
  }, [key]);
  return { ...state, stop };
}

/** The pace of what costs the brokers more with each partition: seconds for most clusters, less often for large ones. */
export function paceOfCluster(answer) {
  return Math.max(5000, (answer?.partitions ?? 0) * 3);
}
