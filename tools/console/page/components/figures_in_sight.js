// Figures that cost the cluster a question: asked for the rows in sight of a long table, and for all on request.
import { ask } from "./api.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "./html.js";

const MOST_CHARACTERS = 12_000; // of one address

/** Names in parts of at most `most`, each short enough for an address. */
export function inParts(names, most) {
  const parts = [];
  let part = [];
  let characters = 0;
  for (const name of names) {
    const size = encodeURIComponent(name).length + 24;
    if (part.length && (part.length >= most || characters + size > MOST_CHARACTERS)) {
      parts.push(part);
      part = [];
      characters = 0;
    }
    part.push(name);
    characters += size;
  }
  if (part.length) parts.push(part);
  return parts;
}

/** A failed part of one question is shown as long as the last answer has it. */
function store(figures, answer, { list, key, combine }) {
  const next = new Map(figures);
  for (const row of answer[list]) {
    next.set(row[key], combine({ ...row, measured_ms: answer.measured_ms }, figures.get(row[key])));
  }
  return next;
}

/**
 * Figures by name: `{figures, missing, error, onVisible(rows), loadAll(names), loading}`.
 *
 * `resource` is asked with `parameter` for some names, and answers `{[list]: [{[key]: name, ...}], measured_ms, missing}`.
 * `most`: names in one question. `everyMs`: how often the rows in sight are asked for again. `combine(row, before)`: what
 * is kept of a row. `loading`: a share from 0 to 1, or null.
 */
export function useFiguresInSight({ resource, parameter, list, key, most, everyMs = 5000, combine = (row) => row }) {
  const [state, setState] = useState({ figures: new Map(), missing: {}, error: null });
  const [loading, setLoading] = useState(null);
  const visible = useRef([]);
  const known = useRef(state.figures);
  const abort = useRef(null);
  known.current = state.figures;

  const load = useCallback(async (names, signal) => {
    for (const part of inParts(names, most)) {
      try {
        const answer = await ask(resource, { [parameter]: part }, signal);
        if (signal.aborted) return;
        setState((before) => ({
          figures: store(before.figures, answer, { list, key, combine }),
          missing: answer.missing,
          error: null,
        }));
      } catch (error) {
        if (!signal.aborted) setState((before) => ({ ...before, error }));
        return;
      }
    }
  }, []);

  useEffect(() => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    let timer = 0;
    const turn = async () => {
      if (!document.hidden && visible.current.length) await load(visible.current, signal);
      if (!signal.aborted) timer = setTimeout(turn, everyMs);
    };
    timer = setTimeout(turn, everyMs);
    return () => {
      abort.current.abort();
      clearTimeout(timer);
    };
  }, []);

  const onVisible = useCallback((rows) => {
    visible.current = rows.map((row) => row[key]);
    const unknown = visible.current.filter((name) => !known.current.has(name));
    if (unknown.length) load(unknown, abort.current.signal);
  }, []);

  const loadAll = useCallback(async (names) => {
    const { signal } = abort.current;
    const parts = inParts(names, most);
    for (const [index, part] of parts.entries()) {
      setLoading(index / parts.length);
      await load(part, signal);
      if (signal.aborted) return;
    }
    setLoading(null);
  }, []);

  return useMemo(() => ({ ...state, loading, onVisible, loadAll }), [state, loading]);
}
