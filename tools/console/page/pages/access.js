// Access: ACLs, the rule that decides about a request, users of SCRAM, quotas, delegation tokens, features.
import { html } from "../components/html.js";
import { PageHead } from "../components/notices.js";
import { setQuery } from "../components/route.js";
import { Tabs } from "../components/tabs.js";
import { Acls } from "./access_acls.js";
import { Decision } from "./access_decision.js";
import { Features, Tokens, Users } from "./access_lists.js";
import { Quotas } from "./access_quotas.js";

const TABS = [
  { name: "acls", title: "ACLs", Content: Acls },
  { name: "why", title: "Why", Content: Decision },
  { name: "users", title: "Users", Content: Users },
  { name: "quotas", title: "Quotas", Content: Quotas },
  { name: "tokens", title: "Delegation tokens", Content: Tokens },
  { name: "features", title: "Features", Content: Features },
];

export default function AccessPage({ query }) {
  const tab = TABS.find(({ name }) => name === query.tab) ?? TABS[0];
  const choose = (name) => setQuery({ tab: name === TABS[0].name ? null : name, filter: null });
  return html`<${PageHead} title="Access" />
    <${Tabs} label="Access" tabs=${TABS} chosen=${tab.name} onChoose=${choose} />
    <section class="form" role="tabpanel" aria-label=${tab.title}>
      <${tab.Content} key=${tab.name} query=${query} />
    </section>`;
}
