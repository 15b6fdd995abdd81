// Navigation by address: `#/topics/orders?filter=x`. Every view has an address that can be sent to a colleague.
import { useEffect, useState } from "./html.js";

/** The route of the address: `{path: "/topics/orders", query: {filter: "x"}}`. */
export function currentRoute() {
  const text = location.hash.slice(1) || "/";
  const split = text.indexOf("?");
  const path = split < 0 ? text : text.slice(0, split);
  return { path, query: Object.fromEntries(new URLSearchParams(split < 0 ? "" : text.slice(split + 1))) };
}

/** The address of a view: `address("/topics", name)`; each part but the first is encoded. `query`: an object, or null. */
export function address(path, ...rest) {
  const query = rest.length && typeof rest.at(-1) === "object" && rest.at(-1) !== null ? rest.pop() : {};
  const parts = rest.map((part) => `/${encodeURIComponent(part)}`).join("");
  const known = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(known).toString();
  return `#${path}${parts}${search ? `?${search}` : ""}`;
}

export function go(target) {
  location.hash = target;
}

/** Change parameters of this view's address, without a step in the history; null removes one. */
export function setQuery(changes) {
  const { path, query } = currentRoute();
  history.replaceState(null, "", address(path, { ...query, ...changes }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The values of a pattern such as `/topics/:topic` in a path; null if the path is another one. */
export function match(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const values = {};
  for (let index = 0; index < wanted.length; index += 1) {
    if (wanted[index].startsWith(":")) {
      try {
        values[wanted[index].slice(1)] = decodeURIComponent(given[index]);
      } catch {
        return null;
      }
    } else if (wanted[index] !== given[index]) return null;
  }
  return values;
}

export function useRoute() {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const read = () => setRoute(currentRoute());
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return route;
}
