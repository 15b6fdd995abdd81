// Preact with htm: `html` makes elements. Values are text nodes: nothing that a record holds becomes HTML.
import { h } from "preact";
import htm from "htm";

export { render, createContext, Fragment } from "preact";
export {
  useState,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useCallback,
  useContext,
} from "preact/hooks";
export const html = htm.bind(h);
