// The pages: `{path, title, load}` each; `load` imports the module, whose default export is the page's component.
// A path may have parts such as `:topic`; the component gets them decoded as `values`, and the query as `query`.
// With `isListed` a page stands in the navigation. To add a page: write pages/NAME.js, and a line here.
export const PAGES = [
  { path: "/", title: "Brokers", load: () => import("./pages/brokers.js") },
  { path: "/brokers", title: "Brokers", isListed: true, load: () => import("./pages/brokers.js") },
];
