// The pages: `{path, title, load}` each; `load` imports the module, whose default export is the page's component.
// A path may have parts such as `:topic`; the component gets them decoded as `values`, and the query as `query`.
// With `isListed` a page stands in the navigation. To add a page: write pages/NAME.js, and a line here.
export const PAGES = [
  { path: "/", title: "Overview", isListed: true, load: () => import("./pages/overview.js") },
  { path: "/brokers", title: "Brokers", isListed: true, load: () => import("./pages/brokers.js") },
  { path: "/brokers/:broker", title: "Broker", load: () => import("./pages/broker.js") },
  { path: "/topics", title: "Topics", isListed: true, load: () => import("./pages/topics.js") },
  { path: "/topics/:topic", title: "Topic", load: () => import("./pages/topic.js") },
  { path: "/topics/:topic/messages", title: "Messages", load: () => import("./pages/messages.js") },
  { path: "/messages", title: "Messages", isListed: true, load: () => import("./pages/message_topics.js") },
  { path: "/groups", title: "Groups", isListed: true, load: () => import("./pages/groups.js") },
  { path: "/groups/:group", title: "Group", load: () => import("./pages/group.js") },
  { path: "/transactions", title: "Transactions", isListed: true, load: () => import("./pages/transactions.js") },
  { path: "/log-directories", title: "Log directories", isListed: true, load: () => import("./pages/log_directories.js") },
  { path: "/log-directories/:broker/:directory", title: "Log directory", load: () => import("./pages/log_directory.js") },
  { path: "/clients", title: "Clients", isListed: true, load: () => import("./pages/clients.js") },
  { path: "/access", title: "Access", isListed: true, load: () => import("./pages/access.js") },
];
