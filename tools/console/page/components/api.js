// Requests to the console: `ask("brokers", {topic: ["a", "b"]})`. A failure is an ApiError with a sentence.
let session = null;
const listeners = new Set();

export class ApiError extends Error {
  /** `content`: the whole answer, if there is one. */
  constructor(message, status, content = null) {
    super(message);
    this.status = status;
    this.content = content;
  }
}

/** The address of a resource; a list is a parameter that comes several times; null and undefined are left out. */
export function resourceAddress(name, parameters = {}) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") search.append(key, each);
    }
  }
  const text = search.toString();
  return `api/${name}${text ? `?${text}` : ""}`;
}

async function read(response) {
  let content;
  try {
    content = await response.json();
  } catch {
    throw new ApiError(`the console answers ${response.status} without a reason`, response.status);
  }
  if (!response.ok) {
    throw new ApiError(content.error ?? `the console answers ${response.status}`, response.status, content);
  }
  return content;
}

async function request(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the console does not answer; is its broker, or `headgate console`, running?", 0);
  }
  return read(response);
}

/** The answer of a resource. Throws ApiError. */
export async function ask(name, parameters, signal) {
  try {
    return await request(resourceAddress(name, parameters), { signal });
  } catch (error) {
    if (error.status === 401) await loadSession();
    throw error;
  }
}

/** Send JSON to a resource that changes something. Throws ApiError. */
export async function post(name, content) {
  const headers = { "Content-Type": "application/json", "X-Headgate-CSRF": session?.csrf_token ?? "" };
  return request(`api/${name}`, { method: "POST", headers, body: JSON.stringify(content) });
}

/** True if the console lets visitors change the cluster. */
export function mayWrite() {
  return session?.may_write ?? false;
}

/** Load the session: `{needs_login, user, bootstrap, ...}`. Throws ApiError. */
export async function loadSession() {
  setSession(await request("api/session"));
  return session;
}

export function setSession(next) {
  session = next;
  listeners.forEach((listener) => listener(next));
}

export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
