// The frame around every page: navigation, the session, keys.
import { loadSession, onSession, post } from "./components/api.js";
import { html, render, useEffect, useRef, useState } from "./components/html.js";
import { Failure, Loading } from "./components/notices.js";
import { address, match, useRoute } from "./components/route.js";
import { showInRow } from "./components/scrolling.js";
import { ThemeSwitch } from "./components/theme.js";
import { toast, Toasts } from "./components/toasts.js";
import { PAGES } from "./pages.js";
import { Login } from "./pages/login.js";

function useSession() {
  const [state, setState] = useState({ session: null, error: null });
  const load = () => loadSession().catch((error) => setState((before) => ({ ...before, error })));
  useEffect(() => {
    const end = onSession((session) => setState({ session, error: null }));
    load();
    return end;
  }, []);
  return { ...state, load };
}

/** The component of a route, once its module is loaded. */
function usePage(path) {
  const [loaded, setLoaded] = useState({ path: null, Component: null, error: null });
  const found = PAGES.map((page) => ({ page, values: match(page.path, path) })).find(({ values }) => values);
  useEffect(() => {
    let isCurrent = true;
    found?.page
      .load()
      .then((module) => isCurrent && setLoaded({ path: found.page.path, Component: module.default, error: null }))
      .catch((error) => isCurrent && setLoaded({ path: found.page.path, Component: null, error }));
    return () => {
      isCurrent = false;
    };
  }, [found?.page.path]);
  const isLoaded = found && loaded.path === found.page.path;
  return { found, Component: isLoaded ? loaded.Component : null, error: isLoaded ? loaded.error : null };
}

function Page({ route }) {
  const { found, Component, error } = usePage(route.path);
  const main = useRef(null);
  const isFirst = useRef(true);
  const title = found ? [...Object.values(found.values), found.page.title].join(" · ") : "Not found";
  useEffect(() => {
    document.title = `${title} · Headgate`;
    if (!isFirst.current) {
      main.current.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [route.path]);
  let content = html`<${Loading} />`;
  if (!found) content = html`<div class="empty"><strong>There is no such page</strong><a href="#/">Go to the start</a></div>`;
  else if (error) content = html`<${Failure} error=${error} retry=${() => location.reload()} />`;
  else if (Component) content = html`<${Component} key=${route.path} values=${found.values} query=${route.query} />`;
  return html`<main id="main" tabindex="-1" ref=${main}>${content}</main>`;
}

function Navigation({ path }) {
  const row = useRef(null);
  useEffect(() => showInRow(row.current, row.current.querySelector("[aria-current]")), [path]);
  const isWithin = (page) => path === page.path || (page.path !== "/" && path.startsWith(`${page.path}/`));
  return html`<nav class="side" aria-label="Pages" ref=${row}>
    <ul>
      ${PAGES.filter((page) => page.isListed).map(
        (page) =>
          html`<li key=${page.path}>
            <a href=${address(page.path)} aria-current=${isWithin(page) ? "page" : null}>${page.title}</a>
          </li>`,
      )}
    </ul>
  </nav>`;
}

function ReadOnly() {
  const title = "The console changes nothing; headgate.console.write=true, or `headgate console --write`, lets it";
  return html`<span class="badge read-only" title=${title}>read-only</span>`;
}

function Top({ session, onLogout }) {
  return html`<header class="top">
    <a class="brand" href="#/"><img src="icon.svg" alt="" />Headgate</a>
    <span class="top-cluster" title="The brokers that the console asks first">${session?.bootstrap}</span>
    <div class="top-end">
      ${session && !session.may_write && html`<${ReadOnly} />`}
      ${session?.user && html`<span class="soft">${session.user}</span>`}
      ${session?.user && html`<button class="button small" onClick=${onLogout}>Log out</button>`}
      <${ThemeSwitch} />
    </div>
  </header>`;
}

function App() {
  const route = useRoute();
  const { session, error, load } = useSession();
  const logOut = () => post("logout", {}).then(load, (failure) => toast(failure.message, "bad"));
  let content = html`<main id="main"><${Loading} /></main>`;
  if (session?.needs_login) content = html`<main id="main"><${Login} session=${session} /></main>`;
  else if (session) content = html`<${Page} route=${route} />`;
  else if (error) content = html`<main id="main"><${Failure} error=${error} retry=${load} /></main>`;
  return html`<div class="frame">
      <${Top} session=${session} onLogout=${logOut} />
      <${Navigation} path=${route.path} />
      ${content}
    </div>
    <${Toasts} />`;
}

/** `/` moves the focus to the filter. */
function focusFilter(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const field = document.querySelector("main [data-filter]");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
}

addEventListener("keydown", focusFilter);
// The address after # belongs to the pages: the link to the content must not change it
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("#main").focus();
});
render(html`<${App} />`, document.querySelector("#app"));
