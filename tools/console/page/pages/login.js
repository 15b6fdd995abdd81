// The login of a visitor, as a user of the cluster.
import { post, setSession } from "../components/api.js";
import { Form, Input, Select } from "../components/form.js";
import { html, useState } from "../components/html.js";

export function Login({ session }) {
  const [mechanism, setMechanism] = useState(session.mechanisms[0]);
  const isToken = mechanism === "OAUTHBEARER";
  const logIn = async (values) => setSession(await post("login", { user: "", ...values, mechanism }));
  return html`<div class="card login">
    <h1>Log in at ${session.bootstrap}</h1>
    <${Form} submit="Log in" onSubmit=${logIn}>
      <${Select}
        label="Mechanism"
        options=${session.mechanisms.map((name) => [name, name])}
        value=${mechanism}
        onChange=${(event) => setMechanism(event.target.value)}
      />
      ${!isToken && html`<${Input} label="User" name="user" autocomplete="username" required autofocus />`}
      <${Input}
        label=${isToken ? "Token" : "Password"}
        name="password"
        type="password"
        autocomplete=${isToken ? "off" : "current-password"}
        required
      />
      <p class="soft">The console shows what this user may see, by the ACLs of the cluster.</p>
    <//>
  </div>`;
}
